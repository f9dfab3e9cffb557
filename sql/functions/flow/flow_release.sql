-- The job waits no more; deferred.__settle() leaves alone whoever does not, and takes his count
-- away when his parents have ended. That is written down here, for neither the job nor its log
-- shows why it ran before what it waits for.
create or replace function deferred.flow_release(job bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_queue text;
    v_due   timestamptz;
begin
    if not exists (select from deferred.__deferred d where d.id = job
                   and deferred.__may_touch(d.created_by::name)) then
        return false;
    end if;
    perform deferred.__defer_check(deferred.__actor(), d.queue, d.fn) from deferred.__deferred d
    where d.id = job;
    select h.queue, h.due_at into v_queue, v_due from deferred.__deferred_hot h
    where h.id = job for update;
    if v_due is distinct from 'infinity' or not exists (select from deferred.__deferred_wait w
                                                        where w.id = job) then
        raise exception using errcode = '55000',
            message = format('job %s does not wait for other jobs', job),
            hint = 'to run an ended, skipped or delayed job: select deferred.retry(ID)';
    end if;
    update deferred.__deferred_hot h
    set due_at = null, visible_at = clock_timestamp(), xid = pg_current_xact_id(),
        watched = coalesce(h.watched, false)
    where h.id = job;
    insert into deferred.__deferred_action (who, role, login, verb, job_id)
    values (deferred.__actor(), deferred.__actor(), session_user, 'release', job);
    perform deferred.__wake(v_queue);
    return true;
end
$$;
comment on function deferred.flow_release(bigint) is
    'have a job that waits for others run now, whatever becomes of them. False: no such job';
grant execute on function deferred.flow_release(bigint) to deferred_worker;
