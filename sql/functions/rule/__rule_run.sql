-- rules: stored queries whose rows become jobs.
--
-- Whose rights. A rule belongs to the role that added it, and somebody else may run it: a
-- superuser's crontab, say. The query then must not get hold of the rights of who runs it.
--
-- SET ROLE alone is no fence: a function the query calls may RESET ROLE. What cannot be left is a
-- SECURITY DEFINER function that belongs to the rule's owner. Nobody can make one for another role
-- but who may SET ROLE to it, so it is made when it is needed, in the temporary schema of the
-- session that runs the rule, and called in the same
-- transaction: as long as it is not committed, no other session can alter it. Its body hands the
-- text of the query to
-- EXECUTE, so nothing of that text is looked at before the function runs (already parsing
-- '(x)'::some_type can call a function of the owner's). SET ROLE to the owner comes on top, before
-- that function is called and until the transaction ends: deferred.__actor() asks who acts, and
-- many functions of others do, whom the definer of a function is nothing to; inside of one nobody
-- can change it. Without it the query was told what he may know who runs the rule: other owners'
-- rules, say. So what follows in that transaction, __rule_run() too, has the owner's rights at
-- most. Who runs a rule has to be a member of the owner's role, and the owner needs the right to
-- make temporary objects (which PUBLIC has, unless it was taken away).
--
-- Such a function can still leave things behind for the session that called it, and what the
-- transaction does next has to bear it:
-- - settings: search_path is pinned again right after the call, by a statement in which there is
--   nothing to look up
--   (__rule_fetch);
-- - a cursor WITH HOLD, whose query the server would run at commit, with the rights of the session:
--   refused;
-- - prepared statements, session settings and session locks: the program clears them in the message
--   that ends the transaction.
-- The code of the owner runs once a transaction, in one call; trying a rule out is rolled back.
--
-- Read-only. The query runs in a subtransaction of its own with transaction_read_only on, which
-- gives the clear message. PostgreSQL restores the outer transaction's state when the
-- subtransaction ends. A function's SET cannot do this from PostgreSQL 16 on. Up to PostgreSQL 15,
-- RESET switches transaction_read_only off, and large objects can be made in spite of it. But
-- whatever writes gives the subtransaction a transaction id, and so a row in pg_locks, and the run
-- fails.
--
-- One pass, one statement, no row on its way to the client: __rule_run() inserts what
-- __rule_fetch() returns. The hot row goes first, so that the unique index decides about a key; ids
-- are drawn for those rows only whose key is not hot already, or a rule that is run every minute
-- would use up the range of a partition in a day. Rows are queued in the order of their keys, which
-- fills the index of keys page after page: processor time for 300,000 hot rows 3.2 s with the sort,
-- 3.9 s without, and more the larger the table is. tests/bench/rules.py compares the whole with
-- INSERT ... SELECT.
create or replace function deferred.__rule_run(name text, estimate double precision, ticks boolean,
                                               flow bigint,
    out queued bigint, out skipped bigint, out failed bigint, out examples json)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off
    set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
    r         deferred.__deferred_rule := deferred.__rule_get($1, true);
    v_start   timestamptz := clock_timestamp();
    v_now     timestamptz := clock_timestamp();
    v_owner   name := (select x.rolname from pg_roles x where x.oid = r.owner);
    v_mine    text := deferred.__own_key(v_owner, '');  -- what his keys begin with
    v_delay   bigint := deferred.__ms('delay', r.opts->>'delay');
    v_due     timestamptz := case when v_delay > 0 then v_now + v_delay * interval '1 millisecond' end;
    v_expires timestamptz := v_now + nullif(deferred.__ms('expires', r.opts->>'expires'),
                                            0) * interval '1 millisecond';
    v_label   text := r.opts->>'label';
    v_tags    text[] := deferred.__tags(r.opts->'tags');
    v_max_attempts integer := (r.opts->>'max_attempts')::integer;
    v_timeout bigint := deferred.__ms('timeout', r.opts->>'timeout');
    v_floor   bigint := deferred.__ms('backoff_floor', r.opts->>'backoff_floor');
    v_ceiling bigint := deferred.__ms('backoff_ceiling', r.opts->>'backoff_ceiling');
    v_exponent double precision := (r.opts->>'backoff_exponent')::double precision;
    v_max_bytes integer;
    v_ttl_ms  bigint;
    v_max_length integer;
    v_drop    boolean;
    v_limited boolean := deferred.__is_limited(r.queue, r.fn, null);
    v_room    bigint;
    v_rows    bigint;
    v_jobs    bigint;
    v_flow    bigint;
    v_cancel  boolean;
begin
    -- Who calls could have put anything there; what is run with the rights of this function's owner
    -- otherwise.
    if (select count(*) <> 1 or not bool_and(p.prosecdef and p.proowner = r.owner and p.pronargs = 0
                                             and p.xmin = pg_current_xact_id()::xid)
        from pg_proc p where p.pronamespace = pg_my_temp_schema()
            and p.proname = '__deferred_rule_rows') then
        raise exception using errcode = '55000',
            message = format('rule ''%s'' was not opened in this transaction', r.name),
            hint = 'run the rule with: deferred rule run NAME';
    end if;
    if not deferred.__rule_may_defer(v_owner, r.queue, r.fn) then
        raise exception using errcode = '42501',
            message = format('rule ''%s'': its owner or the current role may not defer ''%s'' to '
                             'queue ''%s''',
                             r.name, r.fn, r.queue),
            hint = 'an administrator allows it with a row in the table '
                   'deferred.__deferred_grant, see deferred-queue(1)';
    end if;
    if not exists (select from deferred.__deferred_queue q
                   where q.name = r.queue and q.removed_at is null) then
        perform deferred.__queue_add(r.queue, v_owner);
    end if;
    if v_limited then
        perform deferred.__limited_add(r.queue);
    end if;
    select q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop' into v_max_bytes,
           v_ttl_ms, v_max_length, v_drop
    from deferred.__deferred_queue q where q.name = r.queue;
    v_expires := coalesce(v_expires, v_now + v_ttl_ms * interval '1 millisecond');
    v_room := v_max_length - deferred.__queue_length(r.queue, v_max_length);
    if $4 is not null then
        v_flow := (deferred.__flow_join($4)).flow;
        v_cancel := (select f.on_failure = 'cancel' from deferred.__deferred_flow f
                     where f.id = v_flow);
    end if;
    -- The planner takes __rule_fetch() to return its 10,000 rows always.
    if $2 > 20000 then perform set_config('enable_nestloop', 'off', true); end if;

    with src as materialized (
        select s.n, s.key, s.params, s.bad,
               case when s.bad is null and s.hot is null
                        and (v_room is null or s.taken <= v_room)
                            then nextval('deferred.__deferred_id_seq') end as id
        from (select t.n, t.key, t.params, t.hot, t.taken,
                     case when t.bad is null and t.hot is null and t.taken > v_room and not v_drop
                          then format('queue ''%s'' is full (max_length %s)',
                                      r.queue, v_max_length) else t.bad end as bad
              from (select row_number() over w as n, f.key, f.params, f.hot, f.bad,
                           count(*) filter (where v_room is not null and f.hot is null
                                            and f.bad is null) over (w rows unbounded
                                                preceding) as taken
                    from (select f.key, case when h.id is null then f.params end as params,
                          h.id as hot,
                                 case when f.key is null then 'its key is NULL'
                                      when length(f.key) not between 1 and 1000
                                      then format('its key has %s characters, 1 to 1000 are taken',
                                                  length(f.key))
                                      when octet_length(f.key) > 2500
                                      then format('its key has %s bytes, at most 2500 are taken',
                                                  octet_length(f.key))
                                      when octet_length(f.params::text) > v_max_bytes
                                      then format('params have %s bytes, but queue ''%s'' '
                                                  'allows %s',
                                                  octet_length(f.params::text), r.queue,
                                                  v_max_bytes)
                                      when octet_length(f.params::text) > 512
                                          and not deferred.__depth_ok(f.params)
                                      then 'params nest deeper than 512 levels' end as bad
                          from deferred.__rule_fetch() f
                          left join deferred.__deferred_hot h on h.queue = r.queue
                              and h.key = v_mine || f.key) f
                    window w as (order by f.key collate "C")) t) s),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
                                             expires_at, key, limited, bounded, watched,
                                             max_attempts,
            params_bytes)
        select s.id, r.queue, r.fn, r.priority, v_due,
               case when ticks and s.n % 8192 = 0 then deferred.__rule_tick('queued', s.n,
                   coalesce(v_due, v_now)) else coalesce(v_due, v_now) end,
               v_expires, v_mine || s.key, v_limited, v_max_length is not null,
               case when v_cancel then true end, v_max_attempts, deferred.__params_bytes(s.params)
        from src s where s.id is not null
        on conflict (queue, key) where key is not null do nothing
        returning id),
    job as (
        insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at,
                                         expires_at, max_attempts, timeout_ms,
            backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by, rule,
            tags)
        select s.id, r.queue, r.fn, s.params, case when v_label is null
                                                       and r.fn = 'send_mail'
                                                           then deferred.__subject(s.params)
                                                               else v_label end, s.key, r.priority,
                                                               v_due, v_expires, v_max_attempts,
                                                               v_timeout, v_floor, v_ceiling,
               v_exponent, case when ticks
                                    and s.n % 8192 = 0 then deferred.__rule_tick('stored', s.n,
                                        v_now) else v_now end, v_owner, r.name, v_tags
        from hot h join src s on s.id = h.id
        returning 1),
    member as (
        insert into deferred.__deferred_member (flow, job) select v_flow, h.id from hot h
        where v_flow is not null)
    select (select count(*) from hot), (select count(*) from job), count(*), count(s.bad),
           (select coalesce(json_agg(json_build_object('key', left(e.key, 100), 'params',
                                                       left(e.params::text, 200), 'error', e.bad)),
                                                       '[]')
            from (select x.key, x.params, x.bad from src x where x.bad is not null limit 3) e)
    into queued, v_jobs, v_rows, failed, examples
    from src s;
    if v_jobs <> queued then
        raise exception using errcode = 'XX000',
            message = format('rule stored %s jobs but queued %s', v_jobs, queued),
            hint = 'report this as a fault of deferred';
    end if;
    skipped := v_rows - queued - failed;
    update deferred.__deferred_rule x
    set last_run_at = v_start, last_run_ms = extract(epoch from clock_timestamp() - v_start) * 1000,
        last_run_by = session_user,
        last_queued = queued, last_skipped = skipped, last_failed = failed, last_error = null
    where x.id = r.id;
end
$$;
comment on function deferred.__rule_run(text, double precision, boolean, bigint) is
    'makes jobs of the rows of the rule that __rule_open() took; ticks: tell how far it has come; '
    'flow: add them to that one';
grant execute on function deferred.__rule_run(text, double precision, boolean,
                                              bigint) to deferred_producer;
