-- Takes the row of a key in __deferred_key for a job. The unique index decides between transactions
-- that do so at once. p_gone was replaced by the job. False: somebody else holds the key, or was
-- faster.
create or replace function deferred.__key_take(p_queue text, p_own_key text, p_id bigint,
    p_key_until_ms bigint, p_now timestamptz default clock_timestamp(),
    p_gone bigint default null) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    -- Read before the holder: a row that another job takes meanwhile is another row.
    v_seen bigint := (select k.job_id from deferred.__deferred_key k
                      where k.queue = p_queue and k.key = p_own_key);
begin
    if exists (select from deferred.__key_holder(p_queue, p_own_key, p_now) x
               where x.id not in (p_id, coalesce(p_gone, 0))) then
        return false;
    end if;
    if v_seen is null then
        insert into deferred.__deferred_key (queue, key, job_id, key_until_ms)
        values (p_queue, p_own_key, p_id, p_key_until_ms) on conflict do nothing;
    else
        -- ON CONFLICT DO UPDATE would leave a row locked that it does not update.
        update deferred.__deferred_key k
        set job_id = p_id, key_until_ms = p_key_until_ms, until = null
        where k.queue = p_queue and k.key = p_own_key and k.job_id = v_seen;
    end if;
    return found;
end
$$;
comment on function deferred.__key_take is
    'takes the row of a key in __deferred_key; false: the key is not free';
