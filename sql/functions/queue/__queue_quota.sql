-- Removed queues count until the quota is reached. Then their rows are deleted, except rows with
-- settings (deferred.__message_queue_rm()). Nothing is lost with them: a claim takes a queue
-- without a row as one without settings. Near its quota a creator waits for its own transactions
-- that have added queues. Before that, each transaction may add a tenth of the quota unseen. The
-- lock is that of a row, because any role that can connect could hold an advisory lock.
create or replace function deferred.__queue_quota(creator text, out quota integer,
                                                  out allowed boolean)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_count constant text :=
        'select count(*) from (select from deferred.__deferred_queue q where q.created_by = $1 '
        'limit $2) x';
    v_n bigint;
begin
    quota := (select q.queues from deferred.__deferred_quota q where q.creator in ($1, '*')
              order by q.creator = '*' limit 1);
    execute v_count into v_n using $1, quota;
    if v_n >= quota / 10 then
        insert into deferred.__deferred_creator (name) values ($1) on conflict do nothing;
        perform from deferred.__deferred_creator c where c.name = $1 for update;
        execute v_count into v_n using $1, quota;
    end if;
    if v_n >= quota then
        delete from deferred.__deferred_queue q
        where q.created_by = $1 and q.removed_at is not null and q.clearing_to is null
          and (q.paused, q.params_max_bytes, q.weight) = (false, 1048576, 1)
          and num_nonnulls(q.visibility_timeout_ms, q.ttl_ms, q.max_attempts, q.backoff_floor_ms,
                           q.backoff_ceiling_ms, q.backoff_exponent, q.max_running, q.rate,
                           q.max_length, q.key_rate) = 0;
        execute v_count into v_n using $1, quota;
    end if;
    allowed := v_n < quota;
end
$$;
comment on function deferred.__queue_quota is 'may a role or an account add another queue?';
