-- Makes jobs of the rows of the rule that __rule_open() took. If `ticks` is true, it reports
-- progress. The jobs join `flow`, if one is given. One statement inserts what __rule_rows()
-- returns, so no row goes to the client. The hot row goes first, so that the unique index decides
-- about a key. Only rows whose key is not hot get an id. Otherwise a rule that runs every minute
-- would use up the range of a partition in a day. Sorted inserts fill the index of keys page after
-- page. Keys in __deferred_key: as in deferred.__enqueue_key(). A job that gets none is not stored.
create or replace function deferred.__rule_run(
    name text, estimate double precision, ticks boolean, flow bigint,
    out queued bigint, out skipped bigint, out failed bigint, out examples json)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off
set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
    r         deferred.__deferred_rule := deferred.__rule_get($1, true);
    v_owner   name := (select x.rolname from pg_roles x where x.oid = r.owner);
    v_own     text := deferred.__own_key(v_owner, '');  -- what the keys of its jobs begin with
    v_job     deferred.__deferred := deferred.__opts_job(r.opts);
    v_limited boolean := deferred.__is_limited(r.queue, r.fn, null);
    q         deferred.__deferred_queue;
    v_visible timestamptz := coalesce(v_job.run_at, v_job.created_at);
    v_room    bigint;
    v_flow    bigint;
    v_watched boolean;
    v_keys    boolean := v_job.key_until_ms is not null
                         or pg_relation_size('deferred.__deferred_key'::regclass) > 0;
    v_ids     bigint[];  -- hot rows of jobs that did not get the row of their key
begin
    perform deferred.__rule_opened(r);
    perform deferred.__defer_check(v_owner, r.queue, r.fn);
    select x.* into q from deferred.__deferred_queue x where x.name = r.queue;
    if q.name is null or q.removed_at is not null then
        perform deferred.__queue_add(r.queue, v_owner);
        select x.* into q from deferred.__deferred_queue x where x.name = r.queue;
    end if;
    perform deferred.__limited_add(r.queue) where v_limited;
    v_job.expires_at := coalesce(v_job.expires_at,
                                 v_job.created_at + q.ttl_ms * interval '1 millisecond');
    v_room := q.max_length - deferred.__queue_length(r.queue, q.max_length);
    if $4 is not null then
        select f.id, nullif(f.on_failure = 'cancel', false) into v_flow, v_watched
        from deferred.__flow_join($4) j join deferred.__deferred_flow f on f.id = j.flow;
    end if;
    -- The planner always expects the 10,000 rows that __rule_fetch() declares.
    if $2 > 20000 then perform set_config('enable_nestloop', 'off', true); end if;
    with src as materialized (
        select t.n, t.key, t.params,
               case when t.bad is null and t.hot is null and t.taken > v_room
                         and q.on_full <> 'drop'
                    then format('queue ''%s'' is full (max_length %s)', r.queue, q.max_length)
                    else t.bad end as bad,
               case when t.bad is null and t.hot is null and (t.taken > v_room) is not true
                    then nextval('deferred.__deferred_id_seq') end as id
        from deferred.__rule_rows(r.queue, v_own, q.params_max_bytes, v_job.created_at) t),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
                                             expires_at, key, limited, bounded, watched,
                                             max_attempts, params_bytes)
        select s.id, r.queue, r.fn, r.priority, v_job.run_at,
               case when ticks and s.n % 8192 = 0
                    then deferred.__rule_tick('queued', s.n, v_visible) else v_visible end,
               v_job.expires_at, v_own || s.key, v_limited, q.max_length is not null, v_watched,
               v_job.max_attempts, deferred.__params_bytes(s.params)
        from src s where s.id is not null
        on conflict (queue, key) where key is not null do nothing
        returning id),
    kept as materialized (
        select h.id from hot h where not v_keys union all select h.id
        from hot h join src s on s.id = h.id and v_keys
            and deferred.__key_take(r.queue, v_own || s.key, h.id, v_job.key_until_ms,
                                    v_job.created_at)),
    job as (
        insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at,
                                         expires_at, max_attempts, timeout_ms, backoff_floor_ms,
                                         backoff_ceiling_ms, backoff_exponent, created_at,
                                         created_by, rule, tags, key_until_ms)
        select s.id, r.queue, r.fn, s.params,
               case when v_job.label is null and r.fn = 'send_mail'
                    then deferred.__subject(s.params) else v_job.label end,
               s.key, r.priority, v_job.run_at, v_job.expires_at, v_job.max_attempts,
               v_job.timeout_ms, v_job.backoff_floor_ms, v_job.backoff_ceiling_ms,
               v_job.backoff_exponent, case when ticks and s.n % 8192 = 0
                    then deferred.__rule_tick('stored', s.n, v_job.created_at)
                    else v_job.created_at end, v_owner, r.name, v_job.tags, v_job.key_until_ms
        from kept h join src s on s.id = h.id),
    member as (
        insert into deferred.__deferred_member (flow, job)
        select v_flow, h.id from kept h where v_flow is not null)
    select (select count(*) from kept), count(*) - count(s.bad) - (select count(*) from kept),
           count(s.bad),
           (select coalesce(json_agg(json_build_object(
                       'key', left(e.key, 100), 'params', left(e.params::text, 200),
                       'error', e.bad)), '[]')
            from (select x.key, x.params, x.bad from src x where x.bad is not null limit 3) e),
           case when v_keys then array(select h.id from hot h except select k.id from kept k) end
    into queued, skipped, failed, examples, v_ids from src s;
    perform deferred.__rule_ended(r, v_job.created_at, queued, skipped, failed, v_keys, v_ids);
end
$$;
grant execute on function deferred.__rule_run to deferred_producer;
