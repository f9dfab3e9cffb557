-- The breaker, as attempts crash: a worker says here that p_n attempts of a function have crashed,
-- after it recorded them. So a success costs nothing, and sums by minute, which are late, are not
-- waited for.
--
-- A success does not reset the count. When the count reaches p_crashes, the log shows how many
-- attempts crashed since the last one that ended in another way. That number is the new count.
-- The log is read from the first crash that counts. Where it holds too many rows since then, the
-- count begins again, and deferred.__breaker() finds the crashes in the sums.
--
-- A function that several roles use is not paused while the jobs of one of them crash. The roles
-- that use it are in __deferred_caller, and, since the last fold, in the log.
--
-- A count that is lost with the server begins again, so the commit does not wait for the disk.
create or replace function deferred.__crashed(
    p_fn text, p_n bigint, p_crashes bigint, p_retry_ms bigint,
    out paused boolean, out text text, out remedy text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set jit = off set lock_timeout = '1s'
set enable_seqscan = off set enable_bitmapscan = on set enable_nestloop = on
as $$
#variable_conflict use_column
declare
    v_most    constant bigint := 50000;  -- rows of the log
    v_counts  constant text[] := '{crashed,ok,failed,timeout,cancelled,snoozed}';
    v         deferred.__deferred_crash;
    v_from    timestamptz;
    v_seen    bigint;
    v_crashed bigint;
    v_first   timestamptz;
    v_roles   text[];
    v_folded  timestamptz := (select f.folded_to from deferred.__deferred_folded f);
begin
    perform set_config('synchronous_commit', 'off', true);
    -- The attempts crashed before this call, which comes soon after.
    insert into deferred.__deferred_crash as c (fn, n, since)
    values (p_fn, p_n, clock_timestamp() - interval '1 second')
    on conflict (fn) do update set n = c.n + p_n
    returning c.* into v;
    paused := exists (select from deferred.__deferred_function f
                      where f.name = p_fn and f.broken_at is not null);
    if paused or v.n < p_crashes then
        return;
    end if;
    v_from := greatest(v.since, (select a.ended_at from deferred.__deferred_alert a
                                 where a.cause = 'breaker' and a.name = p_fn));
    with row as materialized (
        select l.job_id, l.outcome, l.finished_at from deferred.__deferred_log l
        where l.finished_at >= v_from limit v_most),
    attempt as materialized (
        select r.outcome, r.finished_at, d.created_by,
               max(r.finished_at) filter (where r.outcome <> 'crashed') over () as other_at
        from row r
        cross join lateral (select d.fn, d.created_by from deferred.__deferred d
                            where d.id = r.job_id offset 0) d
        where d.fn = p_fn and r.outcome = any (v_counts))
    select (select count(*) from row), count(*), min(a.finished_at),
           array_agg(distinct coalesce(a.created_by, ''))
    into v_seen, v_crashed, v_first, v_roles
    from attempt a where a.finished_at > coalesce(a.other_at, '-infinity');
    if v_seen >= v_most then
        v_crashed := 0;
        v_first := null;
    elsif v_crashed >= p_crashes then
        paused := cardinality(v_roles) > 1 or not (
            exists (select from deferred.__deferred_caller u
                    where u.fn = p_fn and u.creator <> all (v_roles)
                      and greatest(u.crashed_at, u.other_at) > now() - interval '7 days')
            or exists (select from (select l.job_id from deferred.__deferred_log l
                                    where l.finished_at >= v_folded and l.finished_at < v_first
                                      and l.outcome = any (v_counts) limit v_most) r
                       cross join lateral (select d.fn, d.created_by from deferred.__deferred d
                                           where d.id = r.job_id offset 0) d
                       where d.fn = p_fn and d.created_by <> all (v_roles)));
        if paused then
            select p.text, p.remedy into text, remedy
            from deferred.__function_pause(p_fn, v_crashed, p_retry_ms) p;
        end if;
        v_crashed := 0;
        v_first := null;
    end if;
    update deferred.__deferred_crash c
    set n = v_crashed, since = coalesce(v_first, clock_timestamp()) where c.fn = p_fn;
end
$$;
comment on function deferred.__crashed is
    'counts crashes; pauses a function that only crashes; returns the pause and its alert';
grant execute on function deferred.__crashed to deferred_worker;
