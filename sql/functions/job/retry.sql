create or replace function deferred.retry(id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
    d deferred.__deferred;
    v_outcome text;
begin
    select * into d from deferred.__deferred x where x.id = $1;
    if not found or not deferred.__may_touch(d.created_by::name) then return false; end if;
    perform deferred.__defer_check(deferred.__actor(), d.queue, d.fn);
    select * into h from deferred.__deferred_hot x where x.id = $1 for update;
    if found then
        if h.receipt is not null or exists (select from deferred.__deferred_lease l
                                            where l.span @> h.id and h.id = any (l.ids)
                                                and pg_visible_in_snapshot(h.xid, l.snap)) then
            if (h.fn is null and h.visible_at > clock_timestamp())
                or (h.fn is not null and deferred.__lease_of(h.id, h.xid) is not null) then
                raise exception using errcode = '55006', message = format('job %s is running', $1),
                    hint = 'wait until the job has ended, or cancel it first';
            end if;
            return true;  -- its lease has ended: the next claim takes it
        end if;
        if h.due_at = 'infinity'
            and exists (select from deferred.__deferred_wait w where w.id = $1) then
            raise exception using errcode = '55000',
                message = format('job %s waits for %s', $1,
                    (select coalesce('event ''' || a.name || '''', 'job ' || e.parent)
                     from deferred.__deferred_edge e
                     left join deferred.__deferred_awaited a on a.child = e.child
                         and a.parent = e.parent
                     where e.child = $1 and e.what is null order by e.parent limit 1)),
                hint = 'the job runs when that job has ended, or the event was sent; to run it '
                       'now: deferred flow release ID';
        end if;
        update deferred.__deferred_hot x
        set due_at = null, visible_at = clock_timestamp(), xid = pg_current_xact_id()
        where x.id = $1 and x.due_at is not null;
        perform deferred.__wake(h.queue);
        return true;
    end if;
    -- Written, so that of two who retry it at once the second sees what became of the first, or
    -- fails if its snapshot is older.
    update deferred.__deferred x set label = x.label where x.id = $1;
    if exists (select from deferred.__deferred_hot x where x.id = $1) then return true; end if;
    select l.outcome into v_outcome from deferred.__deferred_log l where l.job_id = $1 and l.final
    order by l.finished_at desc, l.attempt desc limit 1;
    if v_outcome = 'ok' then
        raise exception using errcode = '55000', message = format('job %s is done', $1),
            hint = 'to run it once more, defer the call again';
    elsif v_outcome is null then
        raise exception using errcode = '55000',
            message = format('job %s cannot be retried: its attempts were purged', $1),
            hint = 'defer the call again';
    end if;
    perform deferred.__revive(d.id, null, null);
    perform deferred.__wake(d.queue);
    return true;
end
$$;
comment on function deferred.retry(bigint) is
    'makes a dead, cancelled or expired job ready, with its attempt count reset, or a delayed job, '
    'which keeps its count. False: no such job';
grant execute on function deferred.retry(bigint) to deferred_worker;

create or replace function deferred.retry(id bigint, from_start boolean) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if not deferred.retry($1) then return false; end if;
    if $2 then perform deferred.__steps_drop($1); end if;
    return true;
end
$$;
comment on function deferred.retry(bigint, boolean) is
    'the same as retry(id); from_start true: the steps that the job has saved are deleted';
grant execute on function deferred.retry(bigint, boolean) to deferred_worker;
