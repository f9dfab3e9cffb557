-- Locks a job that is to be changed, and returns its hot row. No row: the job does not exist, or is
-- another role's.
--
-- No claim takes the job from now on: see deferred.__lock_unclaimed().
create or replace function deferred.__update_lock(p_id bigint) returns deferred.__deferred_hot
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
begin
    if not exists (select from deferred.__deferred x
                   where x.id = p_id and deferred.__may_touch(x.created_by::name)) then
        return null;
    end if;
    if deferred.__lock_unclaimed(p_id) is null then
        raise exception using errcode = '55006', message = format('job %s has ended', p_id),
            hint = 'only jobs that wait can be changed; defer the call again with the changes';
    end if;
    select * into h from deferred.__deferred_hot x where x.id = p_id;
    if not deferred.__update_free(h) then
        raise exception using errcode = '55006', message = format('job %s is claimed', p_id),
            hint = 'change the job when its attempt has ended, or cancel it and defer the call '
                   'again';
    end if;
    return h;
end
$$;
comment on function deferred.__update_lock is
    'part of deferred.update(): locks a job that nobody holds, or raises 55006';
