-- Claims calls for a program that is not check_deferred. The claim is that of check_deferred:
-- deferred.__claim(), deferred.__claim_limited(). So limits, keys and leases hold for both alike,
-- and each job has one holder. The receipt of a job is its token: deferred.__token().
--
-- As each claim, it commits asynchronously, so that the lock of a lane is not held for a flush. In
-- a transaction that has written before, the commit stays as it was. Planner settings are those of
-- session_setup.sql, for its reasons.
create or replace function deferred.claim_jobs(queues text[], functions text[],
                                               max integer default 1,
                                               lease_ms bigint default 60000)
returns table (id bigint, receipt bigint, fn text, params json, attempt integer,
               max_attempts integer, queue text, key text, label text, steps json, parents json,
               timeout_ms bigint, tick timestamptz, previous_tick timestamptz, traceparent text,
               created_at timestamptz, lease_ends_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
    v_said   text := current_setting('synchronous_commit');
    v_wrote  boolean := pg_current_xact_id_if_assigned() is not null;
    v_worker bigint;
    v_jobs   deferred.__claimed[];
    v_ends   timestamptz[];
begin
    perform deferred.__work_check($1, $2, $3, $4);
    v_worker := deferred.__work_seen($1);
    v_jobs := deferred.__work_claim($1, $2, $3, v_worker, $4);
    v_ends := deferred.__work_ends(v_worker, v_jobs);
    if not v_wrote then
        v_said := current_setting('synchronous_commit');
    end if;
    perform deferred.__work_upkeep($2, cardinality(v_jobs) < $3);
    v_said := set_config('synchronous_commit', v_said, true);
    return query
    select j.id, deferred.__token(j.id, j.receipt, v_worker), j.fn, j.params, j.attempt,
           coalesce(j.max_attempts, deferred.__max_attempts()), j.queue, d.key, j.label,
           case when j.parents then deferred.__steps(j.id)::json end, p.parents::json,
           nullif(j.timeout_ms, 0), j.tick, j.previous_tick, j.traceparent, j.created_at,
           v_ends[j.ordinality]
    from unnest(v_jobs) with ordinality j
    left join lateral deferred.__call(j.id, j.id, j.id) d on true
    left join lateral deferred.__parents(case when j.parents then array[j.id] end) p on true
    order by j.ordinality;
end
$$;
comment on function deferred.claim_jobs(text[], text[], integer, bigint) is
    'take up to max ready jobs of these functions. Nobody else is given such a job for lease_ms, '
    'and finish(), fail(), snooze(), extend(), progress() and step() know the holder by id and '
    'receipt. NULL for queues: all. Call it in a transaction of its own.';
grant execute on function deferred.claim_jobs(text[], text[], integer, bigint)
    to deferred_worker, deferred_http;
