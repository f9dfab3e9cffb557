create or replace function deferred.__forget_keys(batch integer) returns integer
language plpgsql
as $$
declare
    v_rows integer;
    v_locked tid[];
begin
    if not exists (select from deferred.__deferred_limit l
                   where l.kind = 'key' and l.used_at < clock_timestamp() - interval '1 minute')
                       then
        return 0;
    end if;
    -- Locked first: whether a job has the key is then asked with a snapshot that no claim using it
    -- comes after.
    with l as materialized (
        select x.ctid as tid from deferred.__deferred_limit x
        where x.kind = 'key' and x.used_at < clock_timestamp() - interval '1 minute'
        limit batch for update skip locked)
    select array_agg(l.tid) into v_locked from l;
    delete from deferred.__deferred_limit l
    where l.ctid = any (v_locked) and not exists (
        select from deferred.__deferred_hot h
        where h.queue = l.queue and h.concurrency_key is not null
          and (h.due_at is null or h.attempt > coalesce(h.attempt_base, 0))
          and hashtextextended(h.concurrency_key, 0) = l.name::bigint)
      -- A key that comes back has all its tokens. So it may go when it would have them now.
      and not exists (
        select from deferred.__deferred_queue q
        where q.name = l.queue and deferred.__tokens(
            l.tokens, l.tokens_at, q.key_rate, coalesce(q.key_burst, 1), clock_timestamp())
            < coalesce(q.key_burst, 1));
    get diagnostics v_rows = row_count;
    update deferred.__deferred_limit l set used_at = clock_timestamp()
    where l.ctid = any (v_locked);
    return v_rows;
end
$$;
comment on function deferred.__forget_keys(integer) is
    'part of deferred.maintain(): removes what is kept of concurrency keys that no hot job has';
