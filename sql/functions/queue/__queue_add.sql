-- Jobs need the row: limits, status, alerts and quotas use it. So a role that defers the first job
-- to a queue waits for a transaction that adds the same queue. It does not wait as long as that
-- transaction stays open.
create or replace function deferred.__queue_add(queue text, creator name) returns void
language plpgsql
as $$
declare
    -- A token is not a role.
    v_bound boolean := not exists (select from pg_roles r where r.rolname = creator
                                   and pg_has_role(r.oid, 'deferred_owner', 'member'));
    v_was text;
    v record;
begin
    begin
        v_was := deferred.__patience('5 seconds');
        if v_bound then
            select * into v from deferred.__queue_quota(creator::text);
            if not v.allowed then
                raise exception using errcode = '53400',
                    message = format('queue ''%s'' does not exist, and role ''%s'' may not add '
                                     'more '
                                     'than %s queues',
                                     queue, creator, v.quota),
                    hint = 'an administrator adds the queue (deferred queue set NAME --create), '
                           'or raises the quota in the table deferred.__deferred_quota, see '
                           'deferred-queue(1)';
            end if;
        end if;
        insert into deferred.__deferred_queue as q (name, created_by)
        values (queue, case when v_bound then creator end)
        on conflict (name) do update
        set removed_at = null, created_by = excluded.created_by where q.removed_at is not null;
        perform set_config('lock_timeout', v_was, true);
    exception when lock_not_available then
        perform deferred.__locked('queue', queue);
    end;
end
$$;
comment on function deferred.__queue_add is
    'adds a queue, or one that was removed, for a role whose job is the first in it';
