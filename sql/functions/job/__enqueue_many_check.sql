-- Checks jobs before they are stored. The caller passes their queues, each once, and the functions
-- with limits. The result single says that the jobs cannot be stored in one statement. The result
-- limited has the queues of jobs that come under a limit. Soon means that some job is due within a
-- minute.
create or replace function deferred.__enqueue_many_check(
    queues text[], limited_fns text[], now_at timestamptz, fn text[], params json[], queue text[],
    label text[], priority integer[], delay_ms bigint[], run_at timestamptz[], expires_ms bigint[],
    expires_at timestamptz[], key text[], on_duplicate text[], max_attempts integer[],
    timeout_ms bigint[], backoff_floor_ms bigint[], backoff_ceiling_ms bigint[],
    backoff_exponent double precision[], concurrency_key text[], concurrency integer[],
    out single boolean, out limited text[], out soon boolean)
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    -- The arrays are unnested in the list of columns, here as below. In FROM, each array would be
    -- stored before a row is read, and the checks would take twice as long.
    select j.bad or j.bytes > q.bytes or q.bad, j.soon,
           case when j.limited or q.limited then array(
               select distinct q.name
               from (select unnest($4) as fn, unnest($6) as queue, unnest($20) as key) j
               join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default')
               where j.key is not null or coalesce(q.max_running, q.rate) is not null
                  or j.fn = any ($2)) end
    into single, soon, limited
    from (select bool_or(j.params is null or j.fn is null or j.key is not null
                     or length(j.fn) > 127 or j.fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$'
                     or (num_nonnulls(j.label, j.priority, j.delay_ms, j.run_at, j.expires_ms,
                             j.expires_at, j.on_duplicate, j.max_attempts, j.timeout_ms,
                             j.floor_ms, j.ceiling_ms, j.exponent, j.concurrency_key,
                             j.concurrency) > 0
                         and deferred.__opts_bad(j.label, null, j.max_attempts, j.timeout_ms,
                             j.floor_ms, j.ceiling_ms, j.exponent, j.run_at, j.expires_at,
                             j.delay_ms, j.expires_ms, j.priority, j.on_duplicate,
                             j.concurrency_key, j.concurrency) is not null)
                     or (octet_length(j.params::text) > 512
                         and not deferred.__depth_ok(j.params))) as bad,
                 max(octet_length(j.params::text)) as bytes,
                 bool_or(j.concurrency_key is not null or j.fn = any ($2)) as limited,
                 bool_or(case when j.run_at is not null then j.run_at < $3 + interval '1 minute'
                              else coalesce(j.delay_ms, 0) < 60000 end) as soon
          from (select unnest($4) as fn, unnest($5) as params, unnest($7) as label,
                       unnest($8) as priority, unnest($9) as delay_ms, unnest($10) as run_at,
                       unnest($11) as expires_ms, unnest($12) as expires_at, unnest($13) as key,
                       unnest($14) as on_duplicate, unnest($15) as max_attempts,
                       unnest($16) as timeout_ms, unnest($17) as floor_ms,
                       unnest($18) as ceiling_ms, unnest($19) as exponent,
                       unnest($20) as concurrency_key, unnest($21) as concurrency) j) j,
         (select count(*) < cardinality($1)
                 or bool_or(num_nonnulls(q.max_length, q.removed_at) > 0) as bad,
                 min(q.params_max_bytes) as bytes,
                 bool_or(num_nonnulls(q.max_running, q.rate) > 0) as limited
          from deferred.__deferred_queue q where q.name = any ($1)) q;
end
$$;
comment on function deferred.__enqueue_many_check is
    'part of deferred.__enqueue_many(): whether jobs can be stored together, and under limits';
