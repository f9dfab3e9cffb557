-- Where the migrations end, written by `make schema`; to be read, not to be run: `deferred migrate` makes
-- the schema. The partitions of today are left out.
--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: deferred; Type: SCHEMA; Schema: -; Owner: deferred_owner
--

CREATE SCHEMA deferred;

ALTER SCHEMA deferred OWNER TO deferred_owner;

--
-- Name: SCHEMA deferred; Type: COMMENT; Schema: -; Owner: deferred_owner
--

COMMENT ON SCHEMA deferred IS 'jobs deferred by applications and run by check_deferred';

--
-- Name: __account_add(text, bytea, bytea); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__account_add(name text, key1 bytea, key2 bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    if $1 is null or $1 !~ '^[a-z0-9]{3,24}$' then
        raise exception using errcode = '22023', message = format('invalid account name %L', left($1, 200)),
            hint = 'a name has 3 to 24 lower-case letters and digits';
    end if;
    insert into deferred.__deferred_account (name, key1, key2) values ($1, $2, $3);
exception when unique_violation then
    raise exception using errcode = '42710', message = format('there is an account %L already', $1),
        hint = 'deferred account rotate makes it a new key';
end
$_$;

ALTER FUNCTION deferred.__account_add(name text, key1 bytea, key2 bytea) OWNER TO deferred_owner;

--
-- Name: FUNCTION __account_add(name text, key1 bytea, key2 bytea); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__account_add(name text, key1 bytea, key2 bytea) IS 'adds an account; the keys are encrypted already';

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: __deferred_account; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_account (
    name text NOT NULL COLLATE pg_catalog."C",
    enabled boolean DEFAULT true NOT NULL,
    key1 bytea NOT NULL,
    key2 bytea NOT NULL,
    properties json,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    key1_since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    key2_since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT __deferred_account_name_check CHECK ((name ~ '^[a-z0-9]{3,24}$'::text))
);

ALTER TABLE deferred.__deferred_account OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_account; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_account IS 'accounts of the HTTP front; the queues of an account are those whose names begin with its name and a dot';

--
-- Name: COLUMN __deferred_account.name; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_account.name IS 'name of the account, 3 to 24 lower-case letters and digits';

--
-- Name: COLUMN __deferred_account.enabled; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_account.enabled IS 'false: every request is refused';

--
-- Name: COLUMN __deferred_account.key1; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_account.key1 IS 'first key, encrypted: lib/account_key.h';

--
-- Name: COLUMN __deferred_account.key2; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_account.key2 IS 'second key, encrypted';

--
-- Name: COLUMN __deferred_account.properties; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_account.properties IS 'service properties, as they were set';

--
-- Name: COLUMN __deferred_account.created_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_account.created_at IS 'when it was added (database clock)';

--
-- Name: COLUMN __deferred_account.key1_since; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_account.key1_since IS 'when the first key was made';

--
-- Name: COLUMN __deferred_account.key2_since; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_account.key2_since IS 'when the second key was made';

--
-- Name: __account_ls(); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__account_ls() RETURNS SETOF deferred.__deferred_account
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select * from deferred.__deferred_account a order by a.name
$$;

ALTER FUNCTION deferred.__account_ls() OWNER TO deferred_owner;

--
-- Name: FUNCTION __account_ls(); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__account_ls() IS 'all accounts, with their encrypted keys';

--
-- Name: __account_properties(text, json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__account_properties(name text, properties json) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    update deferred.__deferred_account a set properties = $2 where a.name = $1;
    return found;
end
$_$;

ALTER FUNCTION deferred.__account_properties(name text, properties json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __account_properties(name text, properties json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__account_properties(name text, properties json) IS 'replaces the service properties of an account; false: there is none';

--
-- Name: __account_rm(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__account_rm(name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    delete from deferred.__deferred_account a where a.name = $1;
    if not found then
        raise exception using errcode = '42704', message = format('no account %L', left($1, 200)), hint = 'deferred account ls lists them';
    end if;
end
$_$;

ALTER FUNCTION deferred.__account_rm(name text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __account_rm(name text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__account_rm(name text) IS 'removes an account; its queues stay';

--
-- Name: __account_set(text, bytea, bytea, boolean); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__account_set(name text, key1 bytea, key2 bytea, enabled boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    update deferred.__deferred_account a
    set key1 = coalesce($2, a.key1), key1_since = case when $2 is null then a.key1_since else clock_timestamp() end,
        key2 = coalesce($3, a.key2), key2_since = case when $3 is null then a.key2_since else clock_timestamp() end,
        enabled = coalesce($4, a.enabled)
    where a.name = $1;
    if not found then
        raise exception using errcode = '42704', message = format('no account %L', left($1, 200)), hint = 'deferred account ls lists them';
    end if;
end
$_$;

ALTER FUNCTION deferred.__account_set(name text, key1 bytea, key2 bytea, enabled boolean) OWNER TO deferred_owner;

--
-- Name: FUNCTION __account_set(name text, key1 bytea, key2 bytea, enabled boolean); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__account_set(name text, key1 bytea, key2 bytea, enabled boolean) IS 'replaces keys of an account, or has its requests refused';

--
-- Name: __actor(); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__actor() RETURNS name
    LANGUAGE sql STABLE
    AS $$
    select coalesce(nullif(current_setting('role', true), 'none'), session_user)::name
$$;

ALTER FUNCTION deferred.__actor() OWNER TO deferred_owner;

--
-- Name: FUNCTION __actor(); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__actor() IS 'role that acts: the one taken by SET ROLE, else the login role';

--
-- Name: __add_partition(text, text, text, text, text, boolean); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__add_partition(parent text, name text, col text, lo text, hi text, in_use boolean DEFAULT true) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
    if in_use then
        execute format('lock table only deferred.%I in share row exclusive mode', parent);
    end if;
    execute format('create table deferred.%I (like deferred.%I including defaults including constraints including comments)', name, parent);
    execute format('with moved as (delete from deferred.%I where %I >= %L and %I < %L returning *) insert into deferred.%I select * from moved',
                   parent || '_default', col, lo, col, hi, name);
    execute format('alter table deferred.%I attach partition deferred.%I for values from (%L) to (%L)', parent, name, lo, hi);
    return true;
end
$$;

ALTER FUNCTION deferred.__add_partition(parent text, name text, col text, lo text, hi text, in_use boolean) OWNER TO deferred_owner;

--
-- Name: FUNCTION __add_partition(parent text, name text, col text, lo text, hi text, in_use boolean); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__add_partition(parent text, name text, col text, lo text, hi text, in_use boolean) IS 'adds one partition; part of deferred.maintain()';

--
-- Name: __claim_limited(text[], integer, integer, bigint, bigint, bigint, integer, text[], bigint[], bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__claim_limited(queues text[], n integer, n_rated integer, worker bigint, receipt bigint, lease_ms bigint, max_attempts integer, unknown text[], held bigint[], seed bigint) RETURNS TABLE(id bigint, attempt integer, attempt_base integer, job_max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision, created_at timestamp with time zone, wait_us bigint, fn text, label text, params json, job_queue text, job_priority integer, job_lease_ms bigint, seen bigint, wait_ms bigint, start_ms bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'on'
    AS $_$
#variable_conflict use_column
declare
    v_keys_looked constant integer := 300;  -- keys looked at in a queue, and
    v_keys_taken  constant integer := 100;  -- found free: then the search ends
    v_now    timestamptz := clock_timestamp();
    v_pivot  bigint := hashint8extended($10, 0);
    v_at     bigint;
    v_looked integer;
    v_found  integer;
    v_fn     text collate "C";
    v_queue  text collate "C";
    v_head   record;
    v_more   bigint[];
    -- lanes of a queue and a function that hold ready jobs without a key
    v_lane_queue text[] := '{}';
    v_lane_fn    text[] := '{}';
    -- jobs with a key whose turn it is
    v_key_job    bigint[] := '{}';
    v_key_queue  text[] := '{}';
    v_key_fn     text[] := '{}';
    v_key_hash   text[] := '{}';
    -- limits that matter for these, and the rows of them that are ours
    v_queues     text[];
    v_fns        text[];
    v_kind       text[];
    v_of         text[];
    v_name       text[];
    v_wanted     bigint;
begin
    for v_queue in select q.name from deferred.__deferred_queue q
                   where q.limited_jobs and not q.paused and ($1 is null or q.name = any ($1)) loop
        v_fn := '';
        loop
            select x.fn into v_fn from deferred.__deferred_hot x
            where x.queue = v_queue and x.limited and x.concurrency_key is null and x.due_at is null and x.fn > v_fn
            order by x.fn limit 1;
            exit when not found;
            continue when v_fn = any ($8);
            v_lane_queue := v_lane_queue || v_queue::text;
            v_lane_fn := v_lane_fn || v_fn::text;
        end loop;

        v_looked := 0;
        v_found := 0;
        v_at := v_pivot;
        for lap in 0..1 loop
            while v_looked < v_keys_looked and v_found < least(n, v_keys_taken) loop
                -- The first job of the next key. One that was deferred with a delay has not arrived yet; one that waits
                -- for its next attempt has.
                select x.id, x.fn, x.due_at, x.visible_at, x.concurrency, hashtextextended(x.concurrency_key, 0) as hash into v_head
                from deferred.__deferred_hot x
                where x.queue = v_queue and x.concurrency_key is not null and hashtextextended(x.concurrency_key, 0) >= v_at
                  and x.fn is not null and (x.due_at is null or x.attempt > x.attempt_base)
                order by x.queue, hashtextextended(x.concurrency_key, 0), x.id limit 1;
                exit when not found or (lap = 1 and v_head.hash >= v_pivot);
                v_looked := v_looked + 1;
                v_more := null;
                if v_head.concurrency > 1 then
                    select array_agg(y.id) into v_more from (
                        select x.id from deferred.__deferred_hot x
                        where x.queue = v_queue and x.concurrency_key is not null
                          and hashtextextended(x.concurrency_key, 0) = v_head.hash and x.concurrency > 1
                          and x.due_at is null and x.visible_at <= v_now and x.fn is not null and x.fn <> all ($8)
                        order by x.queue, hashtextextended(x.concurrency_key, 0), x.id limit least(n, v_head.concurrency)) y;
                elsif v_head.due_at is null and v_head.visible_at <= v_now and v_head.fn <> all ($8) then
                    v_more := array[v_head.id];
                end if;
                if v_more is not null then
                    v_found := v_found + cardinality(v_more);
                    v_key_job := v_key_job || v_more;
                    v_key_queue := v_key_queue || array_fill(v_queue::text, array[cardinality(v_more)]);
                    v_key_hash := v_key_hash || array_fill(v_head.hash::text, array[cardinality(v_more)]);
                    if v_head.fn <> all (v_key_fn) then v_key_fn := v_key_fn || v_head.fn::text; end if;
                end if;
                exit when v_head.hash = 9223372036854775807;
                v_at := v_head.hash + 1;
            end loop;
            v_at := -9223372036854775808;
        end loop;
    end loop;
    if v_lane_fn = '{}' and v_key_job = '{}' then
        return;
    end if;

    v_queues := array(select q.name from deferred.__deferred_queue q
                      where coalesce(q.max_running, q.rate) is not null and q.name = any (v_lane_queue || v_key_queue));
    -- Those of a key with concurrency above 1 may have other functions than its first job.
    v_fns := array(select f.name from deferred.__deferred_function f where v_key_fn <> '{}' or f.name = any (v_lane_fn));
    select array_agg(w.kind), array_agg(w.queue), array_agg(w.name), count(*) into v_kind, v_of, v_name, v_wanted
    from (select 'queue' as kind, q as queue, '' as name from unnest(v_queues) q
          union all select 'function', '', f from unnest(v_fns) f
          union all (select distinct 'key', k.queue, k.hash from unnest(v_key_queue, v_key_hash) k(queue, hash))) w;
    insert into deferred.__deferred_limit (kind, queue, name)
    select w.kind, w.queue, w.name
    from (select w.* from unnest(v_kind, v_of, v_name) w(kind, queue, name)
          where not exists (select from deferred.__deferred_limit l
                            where l.kind = w.kind collate "C" and l.queue = w.queue collate "C" and l.name = w.name collate "C")
          offset 0) w
    -- Else an insert would wait for another claim that is adding the same row.
    where pg_try_advisory_xact_lock(hashtextextended('deferred.limit ' || w.kind || ' ' || w.queue || ' ' || w.name, 0))
    on conflict do nothing;
    with ours as materialized (
        select l.kind, l.queue, l.name
        from unnest(v_kind, v_of, v_name) w(kind, queue, name)
        join deferred.__deferred_limit l
          on l.kind = w.kind collate "C" and l.queue = w.queue collate "C" and l.name = w.name collate "C"
        for update of l skip locked)
    select coalesce(array_agg(o.kind), '{}'), coalesce(array_agg(o.queue), '{}'), coalesce(array_agg(o.name), '{}')
    into v_kind, v_of, v_name from ours o;

    v_now := clock_timestamp();  -- later than any holder before us looked at the clock
    return query
    with lim as materialized (
        select l.kind, l.queue, l.name, r.still, s.rate, t.tokens,
               greatest(0, least(1000000000, s.max_running - cardinality(r.still), floor(t.tokens)))::integer as room,
               cardinality(r.still) as running
        from unnest(v_kind, v_of, v_name) w(kind, queue, name)
        join deferred.__deferred_limit l
          on l.kind = w.kind collate "C" and l.queue = w.queue collate "C" and l.name = w.name collate "C"
        cross join lateral (
            select array(select h.id from unnest(l.running) i join deferred.__deferred_hot h on h.id = i
                         where h.receipt is not null and h.visible_at > v_now) as still) r
        left join lateral (
            select q.max_running, q.rate, coalesce(q.burst, 1) as burst from deferred.__deferred_queue q
            where l.kind = 'queue' and q.name = l.queue
            union all
            select f.max_running, f.rate, coalesce(f.burst, 1) from deferred.__deferred_function f
            where l.kind = 'function' and f.name = l.name) s on true
        cross join lateral (
            select case when s.rate is not null then
                least(s.burst, coalesce(l.tokens + greatest(0, extract(epoch from v_now - l.tokens_at))::double precision * s.rate, s.burst))
                end as tokens) t),
    -- A limit that is in force but not ours closes what it is about.
    open_lane as materialized (
        select g.queue, g.fn, least(q.rate, f.rate) as rate, least(n, q.room, f.room) as room
        from unnest(v_lane_queue, v_lane_fn) g(queue, fn)
        left join lim q on q.kind = 'queue' and q.queue = g.queue
        left join lim f on f.kind = 'function' and f.name = g.fn
        where (q.room is not null or g.queue <> all (v_queues)) and (f.room is not null or g.fn <> all (v_fns))),
    cand as materialized (
        select x.tid, x.id, x.priority, g.queue, g.fn, null as hash, g.rate
        from open_lane g
        cross join lateral (
            select y.ctid as tid, y.id, y.priority from deferred.__deferred_hot y
            where y.queue = g.queue collate "C" and y.fn = g.fn collate "C" and y.limited and y.concurrency_key is null
              and y.due_at is null and y.visible_at <= v_now
            order by y.queue, y.fn, y.priority desc, y.id limit g.room) x
        union all
        select k.tid, k.id, k.priority, k.queue, k.fn, k.hash, least(q.rate, f.rate)
        from (select h.ctid as tid, h.id, h.priority, h.queue, h.fn, j.hash, coalesce(h.concurrency, 1) as concurrency, l.running,
                     row_number() over (partition by h.queue, j.hash order by h.id) as turn
              from unnest(v_key_job, v_key_hash) j(id, hash)
              join deferred.__deferred_hot h on h.id = j.id
              join lim l on l.kind = 'key' and l.queue = h.queue and l.name = j.hash
              where h.due_at is null and h.visible_at <= v_now) k
        left join lim q on q.kind = 'queue' and q.queue = k.queue
        left join lim f on f.kind = 'function' and f.name = k.fn
        where k.turn <= k.concurrency - k.running
          and (q.room is not null or k.queue <> all (v_queues)) and (f.room is not null or k.fn <> all (v_fns))),
    -- Each cut leaves fewer, so no limit is exceeded; what a cut wastes, the next claim takes.
    by_fn as materialized (
        select c.*, row_number() over (partition by c.fn order by c.priority desc, c.id) as turn from cand c),
    by_queue as materialized (
        select c.tid, c.id, c.priority, c.queue, c.fn, c.hash, c.rate,
               row_number() over (partition by c.queue order by c.priority desc, c.id) as turn
        from by_fn c left join lim f on f.kind = 'function' and f.name = c.fn
        where c.turn <= coalesce(f.room, 2147483647)),
    shared as materialized (
        select c.tid, c.id, c.queue, c.fn, c.hash, c.rate, q.visibility_timeout_ms,
               (c.turn - 1 - ln(((hashtextextended(c.queue, $10) & 9007199254740991) + 1)::float8 / 9007199254740992::float8))
               / q.weight as turn
        from by_queue c join deferred.__deferred_queue q on q.name = c.queue
        left join lim l on l.kind = 'queue' and l.queue = c.queue
        where c.turn <= coalesce(l.room, n)),
    pick as materialized (
        select s.* from (select x.*, row_number() over (partition by x.rate is null order by x.turn, x.id) as at from shared x) s
        where s.rate is null or s.at <= $3
        order by s.turn, s.id limit n),
    row as materialized (
        select h.ctid as tid, h.id, h.attempt, h.attempt_base, h.receipt, h.worker, h.started_at, h.visible_at, h.expires_at,
               h.priority, p.queue, p.fn, p.hash, p.turn, p.rate, coalesce(p.visibility_timeout_ms, $6) as lease_ms
        from pick p join deferred.__deferred_hot h on h.ctid = p.tid
        where h.due_at is null and h.visible_at <= v_now
        for update of h skip locked),
    job as materialized (
        select r.*, r.expires_at <= v_now as expired,
               case when r.receipt is null then false
                    else r.attempt - r.attempt_base >= coalesce(
                         (select d.max_attempts from deferred.__deferred d where d.id = r.id),
                         (select q.max_attempts from deferred.__deferred_queue q where q.name = r.queue), $7) end as used_up
        from row r),
    taken as (
        update deferred.__deferred_hot h
        set attempt = h.attempt + 1, receipt = $5, worker = $4, started_at = now(),
            visible_at = now() + j.lease_ms * interval '1 millisecond'
        from job j where h.ctid = j.tid and j.expired is not true and not j.used_up
        returning j.*),
    gone as (
        delete from deferred.__deferred_hot h using job j
        where h.ctid = j.tid and (j.expired or j.used_up)
        returning j.*),
    lost as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
        select l.id, l.attempt, 'lost', l.used_up, 'the lease ended before a result was recorded', l.started_at, l.worker, l.receipt
        from (select t.id, t.attempt, t.used_up, t.started_at, t.worker, t.receipt from taken t
              union all select g.id, g.attempt, g.used_up, g.started_at, g.worker, g.receipt from gone g) l
        where l.receipt is not null),
    expired as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, 0, 'expired', true, format('not started before %s', g.expires_at)
        from gone g where not g.used_up),
    held as (
        update deferred.__deferred_worker w
        set seen_at = now(), held = coalesce($9, w.held) || coalesce((select array_agg(t.id) from taken t), '{}')
        where w.id = $4),
    new as materialized (
        select u.kind, u.queue, u.name, array_agg(u.id) as ids
        from (select 'queue' as kind, t.queue, '' as name, t.id from taken t
              union all select 'function', '', t.fn, t.id from taken t
              union all select 'key', t.queue, t.hash, t.id from taken t where t.hash is not null) u
        group by u.kind, u.queue, u.name),
    stand as (
        update deferred.__deferred_limit l
        set running = m.still || coalesce(a.ids, '{}'), tokens = m.tokens - coalesce(cardinality(a.ids), 0), tokens_at = v_now,
            used_at = v_now
        from lim m left join new a on a.kind = m.kind and a.queue = m.queue and a.name = m.name
        where l.kind = m.kind and l.queue = m.queue and l.name = m.name and (a.ids is not null or m.still <> l.running))
    select t.id, t.attempt + 1, t.attempt_base, coalesce(d.max_attempts, q.max_attempts), d.timeout_ms,
           coalesce(d.backoff_floor_ms, q.backoff_floor_ms), coalesce(d.backoff_ceiling_ms, q.backoff_ceiling_ms),
           coalesce(d.backoff_exponent, q.backoff_exponent), d.created_at,
           (extract(epoch from now() - coalesce(case when t.receipt is null then t.visible_at end, t.started_at)) * 1000000)::bigint,
           d.fn::text, d.label, d.params, t.queue::text, t.priority::integer, t.lease_ms, s.n,
           (select greatest(1, ceil(min((1 - m.tokens) / m.rate) * 1000))::bigint from lim m where m.tokens < 1 having count(*) > 0),
           case when t.rate is not null then greatest(40, least(86400000, floor(800 / t.rate)))::bigint end
    from (select (select count(*) from pick) + (v_wanted > cardinality(v_kind))::integer as n) s
    left join (taken t join deferred.__deferred d on d.id = t.id join deferred.__deferred_queue q on q.name = t.queue) on true
    order by t.turn, t.id;
end
$_$;

ALTER FUNCTION deferred.__claim_limited(queues text[], n integer, n_rated integer, worker bigint, receipt bigint, lease_ms bigint, max_attempts integer, unknown text[], held bigint[], seed bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __claim_limited(queues text[], n integer, n_rated integer, worker bigint, receipt bigint, lease_ms bigint, max_attempts integer, unknown text[], held bigint[], seed bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__claim_limited(queues text[], n integer, n_rated integer, worker bigint, receipt bigint, lease_ms bigint, max_attempts integer, unknown text[], held bigint[], seed bigint) IS 'claims marked jobs within their limits; what sql/queries/job_claim_limited.sql calls';

--
-- Name: __concurrency_ok(text, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__concurrency_ok(key text, n integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
    select not coalesce(length(key) not between 1 and 1000 or n not between 1 and 10000 or (key is null and n is not null), false)
$$;

ALTER FUNCTION deferred.__concurrency_ok(key text, n integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __concurrency_ok(key text, n integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__concurrency_ok(key text, n integer) IS 'true if these options of a job are in range';

--
-- Name: __depth_ok(json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__depth_ok(params json) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
    -- Fewer than 513 opening brackets cannot nest deeper than 512: the common case stops there.
    select length(params::text) - length(translate(params::text, '[{', '')) <= 512
        or (select max(depth) <= 512
            from (select sum(case when c in ('[', '{') then 1 else -1 end) over (order by n) as depth
                  from string_to_table(regexp_replace(regexp_replace(params::text, E'"([^"\\\\]|\\\\.)*"', '', 'g'),
                                                      '[^][{}]', '', 'g'), null)
                       with ordinality as t(c, n)) s)
$$;

ALTER FUNCTION deferred.__depth_ok(params json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __depth_ok(params json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__depth_ok(params json) IS 'true unless params nest deeper than 512 levels';

--
-- Name: __enqueue(text, json, text, text, integer, bigint, timestamp with time zone, bigint, timestamp with time zone, text, text, integer, bigint, bigint, bigint, double precision, text, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__enqueue(fn text, params json, queue text, label text, priority integer, delay_ms bigint, run_at timestamp with time zone, expires_ms bigint, expires_at timestamp with time zone, key text, on_duplicate text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision, concurrency_key text DEFAULT NULL::text, concurrency integer DEFAULT NULL::integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_queue      text collate "C" := coalesce($3, 'default');
    v_fn         text collate "C" := $1;
    v_now        timestamptz := clock_timestamp();
    v_due        timestamptz;
    v_expires    timestamptz;
    v_max_bytes  integer;
    v_limited    boolean;
    v_ttl_ms     bigint;
    v_max_length integer;
    v_drop       boolean;
    v_removed    boolean;
    v_marked     boolean;
    v_usual      boolean;
    v_id         bigint;
    v_old        record;
    v_actor      name := deferred.__actor();
begin
    -- Each expression and each statement costs a microsecond and more: the usual call passes all checks in two.
    if (length(v_fn) <= 127 and v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]*$' and $2 is not null
        and num_nonnulls($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) = 0) is not true then
        -- Without a function it is a message: a call to the function the queue is bound to, if there is one.
        if v_fn is null and $3 is not null then
            select q.fn into v_fn from deferred.__deferred_queue q where q.name = v_queue;
        end if;
        if (v_fn is null and $3 is null) or length(v_fn) > 127 or v_fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$' then
            raise exception using errcode = '22023',
                message = coalesce('invalid function name ' || quote_literal(left(v_fn, 200)), 'no function given'),
                hint = case when v_fn is null then 'only a message is without one, and names its queue; ' else '' end || 'a name has 1 to 127 letters, digits, "_" and ".", and begins with a letter or "_"';
        end if;
        if $2 is null then
            raise exception using errcode = '22004',
                message = format('params of %L are NULL', v_fn), hint = 'pass ''{}'' for a call without params';
        end if;
        if $5 not between -32768 and 32767 then
            raise exception using errcode = '22003',
                message = format('priority %s is out of range', $5), hint = 'use -32768 to 32767; larger is taken earlier';
        end if;
        if $6 < 0 or $8 < 0 then
            raise exception using errcode = '22003',
                message = format('negative time span: delay %s ms, expires %s ms', $6, $8);
        end if;
        if not deferred.__opts_ok($4, $10, $12, $13, $14, $15, $16) then
            raise exception using errcode = '22003',
                message = (
                    select format('option "%s" of %L is out of range: %s', o.name, v_fn, o.value)
                    from (values ('label', length($4) > 1000, length($4) || ' characters'),
                                 ('key', length($10) not between 1 and 1000 or octet_length($10) > 2500,
                                  length($10) || ' characters, ' || octet_length($10) || ' bytes'),
                                 ('max_attempts', $12 < 1, $12::text), ('timeout', $13 < 1, $13 || ' ms'),
                                 ('backoff_floor', $14 < 1, $14 || ' ms'), ('backoff_ceiling', $15 < 1, $15 || ' ms'),
                                 ('backoff_exponent', true, $16::text)) as o(name, bad, value)
                    where o.bad limit 1),
                hint = 'label: at most 1000 characters; key: 1 to 1000, at most 2500 bytes; max_attempts, timeout and '
                       'back-off delays: more than 0; backoff_exponent: 1 to 100';
        end if;
        if $11 not in ('skip', 'error', 'replace') then
            raise exception using errcode = '22023',
                message = format('invalid on_duplicate %L', left($11, 200)), hint = 'use skip, error or replace';
        end if;
        if v_fn is null and $17 is not null then
            raise exception using errcode = '22023', message = 'a message cannot have a concurrency_key',
                hint = 'it is for calls; set max_running of the queue to limit how many messages are out at once';
        end if;
        if ($17 is not null or $18 is not null) and not deferred.__concurrency_ok($17, $18) then
            raise exception using errcode = '22003',
                message = format('concurrency %s of key %L is out of range', coalesce($18::text, 'NULL'), left($17, 200)),
                hint = 'concurrency_key: 1 to 1000 characters; concurrency: 1 to 10000, together with a key';
        end if;
        v_due := coalesce(nullif($7, '-infinity'), case when $6 > 0 and $7 is null then v_now + $6 * interval '1 millisecond' end);
        v_expires := coalesce($9, case when $8 > 0 then v_now + $8 * interval '1 millisecond' end);
    end if;
    -- One look at all tables.
    select q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop',
           $17 is not null or q.max_running is not null or q.rate is not null
           or exists (select from deferred.__deferred_function f where f.name = v_fn),
           q.removed_at is not null, q.limited_jobs,
           octet_length($2::text) <= least(q.params_max_bytes, 512) and num_nonnulls(q.ttl_ms, q.max_length, q.removed_at) = 0
           and not exists (select from deferred.__deferred_grant)
    into v_max_bytes, v_ttl_ms, v_max_length, v_drop, v_limited, v_removed, v_marked, v_usual
    from deferred.__deferred_queue q where q.name = v_queue;
    if (v_usual and not v_limited) is not true then
        if v_max_bytes is null then  -- no such queue yet
            v_limited := deferred.__is_limited(v_queue, v_fn, $17);
        end if;
        -- NULL for a role without rows, which may defer anything.
        if not (select bool_or((g.queue is null or g.queue = v_queue) and (g.fn is null or (g.fn = v_fn) is true))
                from deferred.__deferred_grant g where g.role in (v_actor, session_user)) then
            raise exception using errcode = '42501',
                message = format('role %I may not defer %L to queue %L', v_actor, v_fn, v_queue),
                hint = 'an administrator grants it by a row in deferred.__deferred_grant';
        end if;
        if v_max_bytes is null then
            if v_queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
                raise exception using errcode = '22023',
                    message = format('invalid queue name %L', left(v_queue, 200)),
                    hint = 'a name has 1 to 88 letters, digits, "_", "." and "-"';
            end if;
            insert into deferred.__deferred_queue (name) values (v_queue) on conflict do nothing;
            v_max_bytes := 1048576;
        end if;
        if octet_length($2::text) > v_max_bytes then
            raise exception using errcode = '54000',
                message = format('params of %L have %s bytes, queue %L takes %s', v_fn, octet_length($2::text), v_queue, v_max_bytes),
                hint = 'store the data elsewhere and pass a reference, or raise params_max_bytes of the queue';
        end if;
        if octet_length($2::text) > 512 and not deferred.__depth_ok($2) then
            raise exception using errcode = '54000',
                message = format('params of %L nest deeper than 512 levels', v_fn);
        end if;
        if v_ttl_ms is not null and v_expires is null then
            v_expires := v_now + v_ttl_ms * interval '1 millisecond';
        end if;
        -- The first of its kind in the queue: workers learn that there is more to ask for. A later one finds it done.
        if v_removed or (v_limited and v_marked is not true) then
            update deferred.__deferred_queue q set limited_jobs = q.limited_jobs or v_limited, removed_at = null
            where q.name = v_queue and (q.removed_at is not null or (v_limited and not q.limited_jobs));
        end if;
        if v_max_length is not null and deferred.__queue_length(v_queue, v_max_length) >= v_max_length
           and ($10 is null or not exists (select from deferred.__deferred_hot h where h.queue = v_queue and h.key = $10)) then
            if v_drop then return null; end if;
            raise exception using errcode = '53400',
                message = format('queue %L is full: it holds %s jobs', v_queue, v_max_length),
                hint = 'defer again later, or raise max_length of the queue';
        end if;
    end if;

    v_id := nextval('deferred.__deferred_id_seq');
    if $10 is null then
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, limited, bounded,
            concurrency_key, concurrency)
        values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires, v_limited,
            v_max_length is not null, $17, $18);
    else
        loop
            insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, key, limited, bounded,
                concurrency_key, concurrency)
            values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires, $10, v_limited,
                v_max_length is not null, $17, $18)
            on conflict (queue, key) where key is not null do nothing;
            exit when found;
            -- Somebody has the key. Between the two statements he may have finished: then try again.
            -- Only who replaces it may lock it: else an open transaction would hold up the worker that runs it.
            select h.id, h.receipt, h.expires_at into v_old from deferred.__deferred_hot h where h.queue = v_queue and h.key = $10;
            continue when not found;
            if v_old.receipt is null and v_old.expires_at <= v_now then
                -- It will never run: it must not stand in the way of one that can.
                with gone as (
                    delete from deferred.__deferred_hot h where h.id = v_old.id and h.receipt is null and h.expires_at <= v_now
                    returning h.id, h.expires_at)
                insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
                select g.id, 0, 'expired', true, format('not started before %s', g.expires_at) from gone g;
                continue;
            end if;
            if coalesce($11, 'skip') = 'skip' then
                return v_old.id;
            elsif $11 = 'error' then
                raise exception using errcode = '23505',
                    message = format('job %s of queue %L has key %L already', v_old.id, v_queue, $10);
            end if;
            select h.id, h.receipt into v_old from deferred.__deferred_hot h where h.queue = v_queue and h.key = $10 for update;
            continue when not found;
            if v_old.receipt is not null then
                raise exception using errcode = '55006',
                    message = format('job %s with key %L is being run and cannot be replaced', v_old.id, $10),
                    hint = 'defer again when it has finished, or use another key';
            end if;
            if not deferred.__may_touch((select d.created_by from deferred.__deferred d where d.id = v_old.id)::name) then
                raise exception using errcode = '42501',
                    message = format('job %s with key %L was deferred by another role and cannot be replaced', v_old.id, $10),
                    hint = 'use on_duplicate skip or error, or a key of your own';
            end if;
            delete from deferred.__deferred_hot h where h.id = v_old.id;
            insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
            values (v_old.id, 0, 'cancelled', true, format('replaced by job %s', v_id));
        end loop;
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at, expires_at, max_attempts,
        timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by, concurrency_key, concurrency)
    values (v_id, v_queue, v_fn, $2, $4, $10, coalesce($5, 0), v_due, v_expires, $12, $13, $14, $15, $16, v_now, v_actor, $17,
        $18);
    -- A sleeper must learn when to rise; for what is due later the look that a service takes every half minute is soon enough.
    if (v_due is null or v_due < v_now + interval '1 minute') and not deferred.__unawaited(v_queue) then
        perform deferred.__wake(v_queue);
    end if;
    return v_id;
end
$_$;

ALTER FUNCTION deferred.__enqueue(fn text, params json, queue text, label text, priority integer, delay_ms bigint, run_at timestamp with time zone, expires_ms bigint, expires_at timestamp with time zone, key text, on_duplicate text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision, concurrency_key text, concurrency integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __enqueue(fn text, params json, queue text, label text, priority integer, delay_ms bigint, run_at timestamp with time zone, expires_ms bigint, expires_at timestamp with time zone, key text, on_duplicate text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision, concurrency_key text, concurrency integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__enqueue(fn text, params json, queue text, label text, priority integer, delay_ms bigint, run_at timestamp with time zone, expires_ms bigint, expires_at timestamp with time zone, key text, on_duplicate text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision, concurrency_key text, concurrency integer) IS 'stores one job, whatever its options; what deferred.defer() and the C library call';

--
-- Name: __enqueue_many(text[], json[], text[], text[], integer[], bigint[], timestamp with time zone[], bigint[], timestamp with time zone[], text[], text[], integer[], bigint[], bigint[], bigint[], double precision[], text[], integer[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__enqueue_many(fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[], run_at timestamp with time zone[], expires_ms bigint[], expires_at timestamp with time zone[], key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[], concurrency_key text[] DEFAULT NULL::text[], concurrency integer[] DEFAULT NULL::integer[]) RETURNS SETOF bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_now   timestamptz := clock_timestamp();
    v_actor name := deferred.__actor();
    v_ids   bigint[];
    v_n     integer := coalesce(array_length($1, 1), 0);
    v_bad   record;
    v_special boolean;
begin
    if v_n = 0 then return; end if;
    -- A job with a key may meet another one; a limited role is checked job by job. Both take the
    -- way of the single job. So does an invalid job, which then reports itself.
    select j.n, j.fn, j.params, j.queue, j.priority into v_bad
    from unnest($1, $2, $3, $4, $5, $6, $8, $10, $12, $13, $14, $15, $16, $17, $18) with ordinality
         as j(fn, params, queue, label, priority, delay_ms, expires_ms, key, max_attempts, timeout_ms, backoff_floor_ms,
              backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency, n)
    left join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default')
    where j.key is not null or q.name is null or j.fn is null or j.params is null
       or length(j.fn) > 127 or j.fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$'
       or not deferred.__opts_ok(j.label, j.key, j.max_attempts, j.timeout_ms, j.backoff_floor_ms, j.backoff_ceiling_ms,
                                 j.backoff_exponent)
       or not deferred.__concurrency_ok(j.concurrency_key, j.concurrency)
       or q.max_length is not null or q.removed_at is not null
       or j.priority not between -32768 and 32767 or j.delay_ms < 0 or j.expires_ms < 0
       or octet_length(j.params::text) > q.params_max_bytes
       or (octet_length(j.params::text) > 512 and not deferred.__depth_ok(j.params))
    limit 1;
    if found or exists (select from deferred.__deferred_grant g where g.role in (v_actor, session_user)) then
        return query
            select deferred.__enqueue(j.fn, j.params, j.queue, j.label, j.priority, j.delay_ms, j.run_at, j.expires_ms,
                j.expires_at, j.key, j.on_duplicate, j.max_attempts, j.timeout_ms, j.backoff_floor_ms,
                j.backoff_ceiling_ms, j.backoff_exponent, j.concurrency_key, j.concurrency)
            from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
                 as j(fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at, key, on_duplicate,
                      max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency);
        return;
    end if;

    v_ids := array(select nextval('deferred.__deferred_id_seq') from generate_series(1, v_n));
    -- Where no queue named here has settings that matter now, none is looked up row by row.
    v_special := $17 is not null or exists (select from deferred.__deferred_function)
        or exists (select from deferred.__deferred_queue q where coalesce(q.max_running, q.rate, q.ttl_ms) is not null);
    insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, limited, concurrency_key, concurrency)
    select j.id, coalesce(j.queue, 'default'), j.fn, coalesce(j.priority, 0), t.due, coalesce(t.due, v_now),
           coalesce(j.expires_at, case when j.expires_ms > 0 then v_now + j.expires_ms * interval '1 millisecond' end,
                    case when v_special then deferred.__queue_expiry(coalesce(j.queue, 'default'), v_now) end),
           case when v_special then deferred.__is_limited(coalesce(j.queue, 'default'), j.fn, j.concurrency_key) else false end,
           j.concurrency_key, j.concurrency
    from unnest(v_ids, $1, $3, $5, $6, $7, $8, $9, $17, $18)
         as j(id, fn, queue, priority, delay_ms, run_at, expires_ms, expires_at, concurrency_key, concurrency)
    cross join lateral (select coalesce(nullif(j.run_at, '-infinity'),
                        case when j.delay_ms > 0 and j.run_at is null then v_now + j.delay_ms * interval '1 millisecond' end) as due) t;
    if v_special then
        update deferred.__deferred_queue q set limited_jobs = true
        where not q.limited_jobs and exists (
            select from unnest($1, $3, $17) as j(fn, queue, concurrency_key)
            where coalesce(j.queue, 'default') = q.name and deferred.__is_limited(q.name, j.fn, j.concurrency_key));
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, priority, run_at, expires_at, max_attempts,
        timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by, concurrency_key, concurrency)
    select j.id, coalesce(j.queue, 'default'), j.fn, j.params, j.label, coalesce(j.priority, 0),
           coalesce(nullif(j.run_at, '-infinity'),
                    case when j.delay_ms > 0 and j.run_at is null then v_now + j.delay_ms * interval '1 millisecond' end),
           coalesce(j.expires_at, case when j.expires_ms > 0 then v_now + j.expires_ms * interval '1 millisecond' end,
                    case when v_special then deferred.__queue_expiry(coalesce(j.queue, 'default'), v_now) end),
           j.max_attempts, j.timeout_ms, j.backoff_floor_ms, j.backoff_ceiling_ms, j.backoff_exponent, v_now, v_actor,
           j.concurrency_key, j.concurrency
    from unnest(v_ids, $1, $2, $3, $4, $5, $6, $7, $8, $9, $12, $13, $14, $15, $16, $17, $18)
         as j(id, fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at, max_attempts, timeout_ms,
              backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency);
    perform deferred.__wake(t.queue)
    from (select distinct coalesce(j.queue, 'default') as queue
          from unnest($1, $3, $6, $7) as j(fn, queue, delay_ms, run_at)
          where coalesce(j.run_at < v_now + interval '1 minute', coalesce(j.delay_ms, 0) < 60000)) t;
    return query select unnest(v_ids);
end
$_$;

ALTER FUNCTION deferred.__enqueue_many(fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[], run_at timestamp with time zone[], expires_ms bigint[], expires_at timestamp with time zone[], key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[], concurrency_key text[], concurrency integer[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __enqueue_many(fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[], run_at timestamp with time zone[], expires_ms bigint[], expires_at timestamp with time zone[], key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[], concurrency_key text[], concurrency integer[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__enqueue_many(fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[], run_at timestamp with time zone[], expires_ms bigint[], expires_at timestamp with time zone[], key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[], concurrency_key text[], concurrency integer[]) IS 'stores many jobs in one statement; what deferred.defer_many() and the C library call';

--
-- Name: __enqueue_opts(text, json, json, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__enqueue_opts(fn text, params json, opts json, queue text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    options constant text[] := '{queue,label,priority,delay,run_at,expires,expires_at,key,on_duplicate,max_attempts,timeout,
                                 backoff_floor,backoff_ceiling,backoff_exponent,concurrency_key,concurrency}';
    o   jsonb := opts::jsonb;
    bad record;
begin
    if jsonb_typeof(o) <> 'object' then
        raise exception using errcode = '22023', message = format('opts are a JSON %s, not an object', jsonb_typeof(o)),
            hint = 'for example {"queue": "mail", "delay": "5s"}';
    end if;
    if queue is not null and o ? 'queue' then
        raise exception using errcode = '22023', message = format('queue %L is given beside option "queue"', left(queue, 200)),
            hint = 'name the queue once';
    end if;
    if o - 'queue' = '{}' then
        return deferred.defer(fn, params, queue => coalesce(queue, o->>'queue'));
    end if;
    if o - options <> '{}' then
        raise exception using errcode = '22023',
            message = format('unknown option "%s"', (select left(k, 200) from jsonb_object_keys(o - options) k limit 1)),
            hint = 'options: ' || array_to_string(options, ', ');
    end if;
    -- Checked by pattern: an exception block would cost every call a subtransaction.
    if (o->>'priority' !~ '^-?[0-9]{1,9}$' or o->>'max_attempts' !~ '^-?[0-9]{1,9}$' or o->>'concurrency' !~ '^-?[0-9]{1,9}$'
        or o->>'backoff_exponent' !~ '^[0-9]{1,3}([.][0-9]{1,9})?$') is true then
        select k, v into bad
        from jsonb_each_text(o) as e(k, v)
        where (k in ('priority', 'max_attempts', 'concurrency') and v !~ '^-?[0-9]{1,9}$')
           or (k = 'backoff_exponent' and v !~ '^[0-9]{1,3}([.][0-9]{1,9})?$')
        limit 1;
        raise exception using errcode = '22023', message = format('invalid value %L for option "%s"', left(bad.v, 200), bad.k),
            hint = 'it takes a number';
    end if;
    return deferred.__enqueue(fn, params, coalesce(queue, o->>'queue'), o->>'label', (o->>'priority')::integer,
        deferred.__ms('delay', o->>'delay'), (o->>'run_at')::timestamptz,
        deferred.__ms('expires', o->>'expires'), (o->>'expires_at')::timestamptz,
        o->>'key', o->>'on_duplicate', (o->>'max_attempts')::integer, deferred.__ms('timeout', o->>'timeout'),
        deferred.__ms('backoff_floor', o->>'backoff_floor'), deferred.__ms('backoff_ceiling', o->>'backoff_ceiling'),
        (o->>'backoff_exponent')::double precision, o->>'concurrency_key', (o->>'concurrency')::integer);
end
$_$;

ALTER FUNCTION deferred.__enqueue_opts(fn text, params json, opts json, queue text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __enqueue_opts(fn text, params json, opts json, queue text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__enqueue_opts(fn text, params json, opts json, queue text) IS 'stores one job with its options as deferred.defer() takes them';

--
-- Name: __forget_keys(integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__forget_keys(batch integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    v_rows integer;
    v_locked tid[];
begin
    if not exists (select from deferred.__deferred_limit l where l.kind = 'key' and l.used_at < clock_timestamp() - interval '1 minute') then
        return 0;
    end if;
    -- Locked first: whether a job has the key is then asked with a snapshot that no claim using it comes after.
    with l as materialized (
        select x.ctid as tid from deferred.__deferred_limit x
        where x.kind = 'key' and x.used_at < clock_timestamp() - interval '1 minute' limit batch for update skip locked)
    select array_agg(l.tid) into v_locked from l;
    delete from deferred.__deferred_limit l
    where l.ctid = any (v_locked) and not exists (
        select from deferred.__deferred_hot h
        where h.queue = l.queue and h.concurrency_key is not null and hashtextextended(h.concurrency_key, 0) = l.name::bigint);
    get diagnostics v_rows = row_count;
    update deferred.__deferred_limit l set used_at = clock_timestamp() where l.ctid = any (v_locked);
    return v_rows;
end
$$;

ALTER FUNCTION deferred.__forget_keys(batch integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __forget_keys(batch integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__forget_keys(batch integer) IS 'part of deferred.maintain(): removes what is kept of concurrency keys that no hot job has';

--
-- Name: __front(text, integer, xid8, bigint, xid8, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, OUT xid xid8, OUT id bigint) RETURNS record
    LANGUAGE plpgsql STABLE STRICT
    AS $$
declare
    v_low   bigint;
    v_high  bigint := least(p_until, pg_snapshot_xmax(pg_current_snapshot()))::text::bigint;
    v_xid   xid8 := p_xid;
    v_id    bigint := p_id;
    v_job   record;
begin
    xid := p_xid;
    id := p_id;
    loop
        select h.xid, h.id, h.visible_at > now() as claimed into v_job
        from deferred.__deferred_hot h
        where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null
          and (h.xid, h.id) >= (v_xid, v_id) and h.xid < p_until and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
        order by h.xid, h.id limit 1;
        if v_job.claimed then
            xid := v_job.xid;
            id := v_job.id;
            v_low := xid::text::bigint;
        elsif v_low is null then
            return;  -- nothing to pass over
        else
            v_high := v_xid::text::bigint;
        end if;
        exit when v_high - v_low < 2;
        v_xid := (v_low + (v_high - v_low) / 2)::text::xid8;
        v_id := -9223372036854775808;
    end loop;

    v_low := id;
    select h.id + 1 into v_high
    from deferred.__deferred_hot h
    where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null and h.xid = __front.xid
      and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
    order by h.id desc limit 1;
    while v_high - v_low > 1 loop
        v_id := v_low + (v_high - v_low) / 2;
        select h.id, h.visible_at > now() as claimed into v_job
        from deferred.__deferred_hot h
        where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null
          and h.xid = __front.xid and h.id >= v_id and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
        order by h.id limit 1;
        if v_job.claimed then
            id := v_job.id;
            v_low := id;
        else
            v_high := v_id;
        end if;
    end loop;
end
$$;

ALTER FUNCTION deferred.__front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, OUT xid xid8, OUT id bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, OUT xid xid8, OUT id bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, OUT xid xid8, OUT id bigint) IS 'where in a lane, or in the half 0 or 1 of it, the claimed jobs end and the ready ones begin; nearly so, for a few lie before; part of a claim';

--
-- Name: __function_set(text, json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__function_set(name text, settings json) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_new deferred.__deferred_function;
    v_unknown text;
begin
    select k into v_unknown from json_object_keys(settings) k where k not in ('max_running', 'rate', 'burst') limit 1;
    if found then
        raise exception using errcode = '22023', message = format('unknown setting %s of function %L', quote_ident(left(v_unknown, 200)), left($1, 200)),
            hint = 'settings: max_running, rate, burst';
    end if;
    if $1 is null or $1 !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$' then
        raise exception using errcode = '22023', message = format('invalid function name %L', left($1, 200)),
            hint = 'a name has 1 to 127 letters, digits, "_" and ".", and begins with a letter or "_"';
    end if;
    select * into v_new from deferred.__deferred_function f where f.name = $1 for update;
    v_new := json_populate_record(v_new, settings);
    if v_new.burst is not null and v_new.rate is null then
        raise exception using errcode = '22023', message = format('function %L has a burst of %s, but no rate', $1, v_new.burst),
            hint = 'set the rate too, or unset the burst';
    end if;
    if coalesce(v_new.max_running, v_new.rate) is null then
        delete from deferred.__deferred_function f where f.name = $1;
        return;
    end if;
    insert into deferred.__deferred_function (name, max_running, rate, burst) values ($1, v_new.max_running, v_new.rate, v_new.burst)
    on conflict (name) do update set max_running = excluded.max_running, rate = excluded.rate, burst = excluded.burst;
exception when check_violation then
    raise exception using errcode = '22003', message = format('a setting of function %L is out of range: %s', $1, left(settings::text, 300)),
        hint = 'max_running: more than 0; rate: 1e-7 to 1e6 a second; burst: 1 to 1000000';
end
$_$;

ALTER FUNCTION deferred.__function_set(name text, settings json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __function_set(name text, settings json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__function_set(name text, settings json) IS 'changes the limits of a function; without any it has none. Call deferred.__mark() until it is done';

--
-- Name: __is_limited(text, text, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__is_limited(queue text, fn text, concurrency_key text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $_$
    select $3 is not null
        or exists (select from deferred.__deferred_queue q where q.name = $1 and coalesce(q.max_running, q.rate) is not null)
        or exists (select from deferred.__deferred_function f where f.name = $2)
$_$;

ALTER FUNCTION deferred.__is_limited(queue text, fn text, concurrency_key text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __is_limited(queue text, fn text, concurrency_key text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__is_limited(queue text, fn text, concurrency_key text) IS 'true: a limit may hold back such a job';

--
-- Name: __mark(bigint, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__mark(from_id bigint, batch integer, OUT marked bigint, OUT next_id bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_queues text[];
begin
    with seen as materialized (
        select h.id, h.limited, h.bounded, deferred.__is_limited(h.queue, h.fn, h.concurrency_key) as to_limit,
               exists (select from deferred.__deferred_queue q where q.name = h.queue and q.max_length is not null) as to_bound
        from deferred.__deferred_hot h where h.id >= from_id order by h.id limit batch),
    row as materialized (
        select h.id, s.to_limit, s.to_bound from seen s join deferred.__deferred_hot h on h.id = s.id
        where s.to_limit <> h.limited or s.to_bound <> h.bounded
        for update of h skip locked),
    done as (
        update deferred.__deferred_hot h set limited = r.to_limit, bounded = r.to_bound, xid = pg_current_xact_id()
        from row r where h.id = r.id
        returning h.id, h.queue, h.fn, h.concurrency_key, h.limited, h.receipt is not null and h.visible_at > clock_timestamp() as runs),
    queue as (
        update deferred.__deferred_queue q set limited_jobs = true
        where not q.limited_jobs and q.name in (select d.queue from done d where d.limited)),
    stand as (
        insert into deferred.__deferred_limit (kind, queue, name, running)
        select r.kind, r.queue, r.name, array_agg(r.id)
        from (select 'queue' as kind, d.queue, '' as name, d.id from done d where d.runs and d.limited
              union all select 'function', '', d.fn, d.id from done d where d.runs and d.limited and d.fn is not null
              union all select 'key', d.queue, hashtextextended(d.concurrency_key, 0)::text, d.id from done d
                        where d.runs and d.concurrency_key is not null) r
        group by r.kind, r.queue, r.name order by r.kind, r.queue, r.name
        on conflict (kind, queue, name) do update set running = __deferred_limit.running || excluded.running)
    select (select count(*) from done), (select array_agg(distinct d.queue) from done d),
           (select max(s.id) + 1 from seen s having count(*) = batch)
    into marked, v_queues, next_id;
    -- A worker may have looked among those without the mark before, and among those with it after this.
    perform deferred.__wake(q) from unnest(v_queues) q;
end
$$;

ALTER FUNCTION deferred.__mark(from_id bigint, batch integer, OUT marked bigint, OUT next_id bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __mark(from_id bigint, batch integer, OUT marked bigint, OUT next_id bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__mark(from_id bigint, batch integer, OUT marked bigint, OUT next_id bigint) IS 'part of "deferred queue set": marks jobs that limits are about, takes the mark from others';

--
-- Name: __may_touch(name); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__may_touch(owner name) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select owner = deferred.__actor()
        or pg_has_role(deferred.__actor(), 'deferred_owner', 'member')
        or pg_has_role(deferred.__actor(), 'deferred_worker', 'member')
$$;

ALTER FUNCTION deferred.__may_touch(owner name) OWNER TO deferred_owner;

--
-- Name: FUNCTION __may_touch(owner name); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__may_touch(owner name) IS 'true for who deferred a job, for workers and administrators';

--
-- Name: __message_clear(text, bigint, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_clear(queue text, to_id bigint, batch integer, OUT status integer, OUT cleared bigint, OUT upto bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    upto := coalesce($2, deferred.__message_last_id());
    if not exists (select from deferred.__deferred_queue q where q.name = $1 and (q.removed_at is null or q.clearing_to is not null)) then
        status := 1;
        more := false;
        return;
    end if;
    status := 0;
    select c.cleared, c.more into cleared, more from deferred.__message_clear_some($1, upto, $3) c;
    if not more then
        update deferred.__deferred_queue q set clearing_to = null where q.name = $1 and q.clearing_to <= upto;
    end if;
end
$_$;

ALTER FUNCTION deferred.__message_clear(queue text, to_id bigint, batch integer, OUT status integer, OUT cleared bigint, OUT upto bigint, OUT more boolean) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_clear(queue text, to_id bigint, batch integer, OUT status integer, OUT cleared bigint, OUT upto bigint, OUT more boolean); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_clear(queue text, to_id bigint, batch integer, OUT status integer, OUT cleared bigint, OUT upto bigint, OUT more boolean) IS 'one step of clearing a queue; call it until more is false';

--
-- Name: __message_clear_some(text, bigint, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_clear_some(queue text, to_id bigint, batch integer, OUT cleared bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
begin
    with seen as materialized (
        (select h.id from deferred.__deferred_hot h where h.queue = $1 and h.fn is null and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h where h.queue = $1 and h.fn is not null and h.due_at is null and not h.limited and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.queue = $1 and h.fn is not null and h.due_at is null and h.limited and h.concurrency_key is null and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.queue = $1 and h.fn is not null and h.concurrency_key is not null and (h.due_at is not null or h.limited) and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.due_at is not null and h.fn is not null and h.concurrency_key is null and h.queue = $1 and h.id <= $2)
        limit $3),
    row as materialized (
        select h.id from seen s join deferred.__deferred_hot h on h.id = s.id for update of h skip locked),
    gone as (
        delete from deferred.__deferred_hot h using row r where h.id = r.id
        returning h.id, h.attempt, h.receipt, h.started_at, h.worker),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
        select g.id, case when g.receipt is null then 0 else g.attempt end, 'cancelled', true,
               format('queue cleared by %s', deferred.__actor()), g.started_at, g.worker, g.receipt
        from gone g)
    select (select count(*) from gone), count(*) = $3 or count(*) > (select count(*) from gone) into cleared, more from seen;
end
$_$;

ALTER FUNCTION deferred.__message_clear_some(queue text, to_id bigint, batch integer, OUT cleared bigint, OUT more boolean) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_clear_some(queue text, to_id bigint, batch integer, OUT cleared bigint, OUT more boolean); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_clear_some(queue text, to_id bigint, batch integer, OUT cleared bigint, OUT more boolean) IS 'cancels some jobs of a queue up to an id';

--
-- Name: __message_delete(text[], bigint[], bigint[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_delete(queues text[], ids bigint[], receipts bigint[]) RETURNS TABLE(item integer, status integer)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
    v_done integer[];
begin
    with ours as materialized (
        select h.id, i.n
        from unnest($1, $2, $3) with ordinality as i(queue, id, receipt, n)
        join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
        join deferred.__deferred_hot h on h.id = i.id and h.queue = i.queue
        where deferred.__message_holds(i.receipt, h.receipt, h.put_receipt, h.attempt, h.worker)
          and (h.expires_at is null or h.expires_at > v_now)
        order by h.id for update of h),
    first as materialized (
        select o.id, min(o.n) as n from ours o group by o.id),
    gone as (
        delete from deferred.__deferred_hot h using first f where h.id = f.id
        returning h.id, case when h.receipt is null then 0 else h.attempt end as attempt, h.started_at,
                  coalesce(h.receipt, h.put_receipt) as receipt, f.n),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at, receipt, run_us)
        select g.id, g.attempt, 'ok', true, g.started_at, v_now, g.receipt, extract(epoch from v_now - g.started_at) * 1000000 from gone g)
    select array_agg(g.n::integer) into v_done from gone g;
    return query select w.item, w.status from deferred.__message_why($1, $2, coalesce(v_done, '{}')) w;
end
$_$;

ALTER FUNCTION deferred.__message_delete(queues text[], ids bigint[], receipts bigint[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_delete(queues text[], ids bigint[], receipts bigint[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_delete(queues text[], ids bigint[], receipts bigint[]) IS 'ends messages that are done, each by the receipt of its last take or of its put';

--
-- Name: __message_expire(bigint[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_expire(ids bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    AS $_$
declare
    v_rows bigint;
begin
    with gone as (
        delete from deferred.__deferred_hot h where h.id = any ($1)
        returning h.id, h.attempt, h.receipt, h.started_at, h.expires_at)
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, receipt)
    select g.id, case when g.receipt is null then 0 else g.attempt end, 'expired', true, format('not done before %s', g.expires_at),
           g.started_at, g.receipt
    from gone g;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$_$;

ALTER FUNCTION deferred.__message_expire(ids bigint[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_expire(ids bigint[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_expire(ids bigint[]) IS 'ends messages that are past their expiry';

--
-- Name: __message_get(text[], integer[], bigint[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_get(queues text[], counts integer[], visibility_ms bigint[]) RETURNS TABLE(item integer, status integer, id bigint, receipt bigint, attempt integer, inserted_at timestamp with time zone, expires_at timestamp with time zone, visible_at timestamp with time zone, params json)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_now      timestamptz := clock_timestamp();
    -- queues that may be taken from; how many messages all requests together want of each, and have
    v_queue    text[];
    v_wanted   integer[];
    v_given    integer[];
    v_max      integer[];
    -- what this round found: whom it goes to, what is to be logged
    v_id       bigint[];
    v_item     integer[];
    v_receipt  bigint[];
    v_started  timestamptz[];
    v_expired  bigint[];
    v_poisoned bigint[];
    v_items    integer[] := '{}';
    v_more     integer := 0;  -- rows looked at beyond those wanted
    -- limits of queues that have one, as this statement found them
    v_limit    text[];
    v_still    json;
    v_all      bigint[] := '{}';
begin
    select array_agg(q.name), array_agg(w.wanted), array_agg(0), array_agg(q.max_dequeue),
           array_agg(q.name order by q.name) filter (where coalesce(q.max_running, q.rate) is not null)
    into v_queue, v_wanted, v_given, v_max, v_limit
    from (select i.queue, sum(i.count)::integer as wanted from unnest($1, $2) as i(queue, count) group by i.queue) w
    join deferred.__deferred_queue q on q.name = w.queue
    where q.removed_at is null and not q.paused;
    if v_limit is not null then
        v_still := deferred.__message_room(v_limit);
        v_wanted := array(select coalesce(least(w.wanted, (v_still->w.name->>'room')::integer), w.wanted)
                          from unnest(v_queue, v_wanted) with ordinality as w(name, wanted, i) order by w.i);
    end if;
    -- A round that only met messages to be ended is followed by another.
    for round in 1..20 loop
        exit when v_queue is null;
        with queue as materialized (
            select k.name, k.wanted - k.given as wanted, k.wanted as in_all, k.given, k.dequeue_max
            from unnest(v_queue, v_wanted, v_given, v_max) as k(name, wanted, given, dequeue_max) where k.wanted > k.given),
        visible as materialized (
            select q.name, q.in_all, q.given, q.dequeue_max, x.*
            from queue q
            cross join lateral (
                select h.id, h.priority, h.xid, h.visible_at, h.expires_at, h.attempt, h.attempt_base, h.receipt, h.started_at
                from deferred.__deferred_hot h
                where h.queue = q.name and h.fn is null and h.due_at is null
                order by h.queue, h.due_at nulls first, h.priority desc, h.xid, h.id
                limit q.wanted + v_more for update of h skip locked) x),
        due as materialized (
            select q.name, q.in_all, q.given, q.dequeue_max, x.*
            from queue q
            cross join lateral (
                select h.id, h.priority, h.xid, h.due_at as visible_at, h.expires_at, h.attempt, h.attempt_base, h.receipt, h.started_at
                from deferred.__deferred_hot h
                where h.queue = q.name and h.fn is null and h.due_at <= v_now
                order by h.queue, h.due_at nulls first
                limit q.wanted + v_more for update of h skip locked) x),
        seen as (
            select x.*, case when x.expires_at <= v_now then 'expired'
                             when x.attempt - x.attempt_base >= x.dequeue_max then 'poisoned' else 'free' end as fate
            from (select * from visible union all select * from due) x),
        turn as materialized (
            select s.*, s.given + row_number() over (partition by s.name, s.fate order by s.priority desc, s.visible_at, s.xid, s.id) as turn
            from seen s),
        slot as materialized (
            select i.n, i.queue, sum(i.count) over w - i.count as after, sum(i.count) over w as upto
            from unnest($1, $2) with ordinality as i(queue, count, n) window w as (partition by i.queue order by i.n))
        select array_agg(t.id order by s.n, t.turn) filter (where s.n is not null),
               array_agg(s.n order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.receipt order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.started_at order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.id) filter (where t.fate = 'expired'), array_agg(t.id) filter (where t.fate = 'poisoned')
        into v_id, v_item, v_receipt, v_started, v_expired, v_poisoned
        from turn t left join slot s on t.fate = 'free' and s.queue = t.name and t.turn > s.after and t.turn <= least(s.upto, t.in_all);

        if v_id is not null then
            v_items := v_items || v_item;
            v_all := v_all || v_id;
            if v_limit is not null then perform deferred.__message_running(v_limit, v_still, v_all); end if;
            return query
            with pick as materialized (
                select p.id, p.n, p.receipt, p.started_at, p.turn
                from unnest(v_id, v_item, v_receipt, v_started) with ordinality as p(id, n, receipt, started_at, turn)),
            taken as (
                update deferred.__deferred_hot h
                set attempt = h.attempt + 1, receipt = uuid_hash_extended(gen_random_uuid(), 0), worker = null, started_at = v_now,
                    due_at = v_now + ($3)[p.n] * interval '1 millisecond', visible_at = v_now + ($3)[p.n] * interval '1 millisecond'
                from pick p where h.id = p.id
                returning p.n, p.turn, h.id, h.receipt, h.attempt, h.expires_at, h.visible_at, p.receipt as old_receipt, p.started_at as old_started_at),
            lost as (
                insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, receipt)
                select t.id, t.attempt - 1, 'lost', false, 'not finished before it was visible again', t.old_started_at, t.old_receipt
                from taken t where t.old_receipt is not null)
            select t.n, 0, t.id, t.receipt, t.attempt, d.created_at, t.expires_at, t.visible_at, d.params
            from taken t cross join lateral (select d.created_at, d.params from deferred.__deferred d where d.id = t.id offset 0) d
            order by t.turn;
        end if;
        if v_expired is not null then perform deferred.__message_expire(v_expired); end if;
        if v_poisoned is not null then perform deferred.__message_poison(v_poisoned); end if;
        exit when v_expired is null and v_poisoned is null;
        v_more := 500;  -- where there are some to be ended there are often many
        v_given := array(select (select count(*)::integer from unnest(v_items) n where ($1)[n] = k.name)
                         from unnest(v_queue) with ordinality as k(name, i) order by k.i);
    end loop;
    return query
    select i.n::integer, case when q.name is null then 1 else 0 end, null::bigint, null::bigint, null::integer, null::timestamptz,
           null::timestamptz, null::timestamptz, null::json
    from unnest($1) with ordinality as i(queue, n)
    left join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null;
end
$_$;

ALTER FUNCTION deferred.__message_get(queues text[], counts integer[], visibility_ms bigint[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_get(queues text[], counts integer[], visibility_ms bigint[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_get(queues text[], counts integer[], visibility_ms bigint[]) IS 'takes visible messages for some requests; no message goes to two of them';

--
-- Name: __message_holds(bigint, bigint, bigint, integer, bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_holds(receipt bigint, held bigint, put_receipt bigint, attempt integer, worker bigint) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $_$
    select $5 is null and $1 <> 0 and coalesce($1 = $2, $4 = 0 and $1 = $3, false)
$_$;

ALTER FUNCTION deferred.__message_holds(receipt bigint, held bigint, put_receipt bigint, attempt integer, worker bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_holds(receipt bigint, held bigint, put_receipt bigint, attempt integer, worker bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_holds(receipt bigint, held bigint, put_receipt bigint, attempt integer, worker bigint) IS 'true if a receipt is the one of the last take or, where there was none, of the put';

--
-- Name: __message_last_id(); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_last_id() RETURNS bigint
    LANGUAGE sql
    AS $$
    select case when s.is_called then s.last_value else 0 end from deferred.__deferred_id_seq s
$$;

ALTER FUNCTION deferred.__message_last_id() OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_last_id(); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_last_id() IS 'the last id given out';

--
-- Name: __message_may(text, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_may(queue text, fn text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $_$
    select coalesce(bool_or((g.queue is null or g.queue = $1) and (g.fn is null or $2 is null or g.fn = $2)), true)
    from deferred.__deferred_grant g where g.role in (deferred.__actor(), session_user)
$_$;

ALTER FUNCTION deferred.__message_may(queue text, fn text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_may(queue text, fn text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_may(queue text, fn text) IS 'true if the acting role may have messages of a queue become calls to fn';

--
-- Name: __message_metadata(json, text, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_metadata(metadata json, fn text, max_dequeue integer) RETURNS json
    LANGUAGE sql STABLE
    AS $_$
    select coalesce(json_object_agg(m.key, m.value order by m.n), '{}')
    from (select e.key, e.value, e.n
          from json_each_text(case when json_typeof($1) = 'object' then $1 else '{}' end) with ordinality as e(key, value, n)
          where e.value is not null and lower(e.key) not in ('deferred_function', 'deferred_max_dequeue')
          union all select 'deferred_function', $2, 1e9 where $2 is not null
          union all select 'deferred_max_dequeue', $3::text, 1e9 + 1 where $3 is not null) m
$_$;

ALTER FUNCTION deferred.__message_metadata(metadata json, fn text, max_dequeue integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_metadata(metadata json, fn text, max_dequeue integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_metadata(metadata json, fn text, max_dequeue integer) IS 'metadata of a queue as consumers see them';

--
-- Name: __message_metadata_read(text, json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_metadata_read(queue text, metadata json, OUT ok boolean, OUT fn text, OUT max_dequeue integer, OUT rest json) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $_$
declare
    v_fn  text;
    v_max text;
begin
    select max(e.value) filter (where lower(e.key) = 'deferred_function'), max(e.value) filter (where lower(e.key) = 'deferred_max_dequeue'),
           coalesce(json_object_agg(e.key, e.value order by e.n) filter (where lower(e.key) not in ('deferred_function', 'deferred_max_dequeue')), '{}')
    into v_fn, v_max, rest
    from json_each_text(coalesce($2, '{}')) with ordinality as e(key, value, n);
    v_fn := nullif(v_fn, '');
    v_max := nullif(v_max, '');
    -- NAME-poison has to be a name too, within what the protocol allows.
    ok := (v_fn is null or v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$')
        and (v_max is null or (v_max ~ '^[0-9]{1,4}$' and length(substr($1, strpos($1, '.') + 1)) <= 56));
    if ok and v_max is not null then ok := v_max::integer between 1 and 1000; end if;
    if ok then
        fn := v_fn;
        max_dequeue := v_max;
    end if;
exception when data_exception then
    ok := false;
end
$_$;

ALTER FUNCTION deferred.__message_metadata_read(queue text, metadata json, OUT ok boolean, OUT fn text, OUT max_dequeue integer, OUT rest json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_metadata_read(queue text, metadata json, OUT ok boolean, OUT fn text, OUT max_dequeue integer, OUT rest json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_metadata_read(queue text, metadata json, OUT ok boolean, OUT fn text, OUT max_dequeue integer, OUT rest json) IS 'what metadata say of the two settings, and the rest of them';

--
-- Name: __message_params(text, boolean); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_params(text text, bound boolean) RETURNS json
    LANGUAGE plpgsql IMMUTABLE
    AS $$
declare
    v_json json;
begin
    if bound and text ~ E'^[ \t\n\r]*[[{]' then
        begin
            v_json := text::json;
            if deferred.__depth_ok(v_json) then return v_json; end if;
        exception when data_exception or program_limit_exceeded then
            null;  -- a text like any other
        end;
    end if;
    return to_json(text);
end
$$;

ALTER FUNCTION deferred.__message_params(text text, bound boolean) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_params(text text, bound boolean); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_params(text text, bound boolean) IS 'text of a message as params';

--
-- Name: __message_peek(text[], integer[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_peek(queues text[], counts integer[]) RETURNS TABLE(item integer, status integer, id bigint, attempt integer, inserted_at timestamp with time zone, expires_at timestamp with time zone, visible_at timestamp with time zone, params json)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
begin
    return query
    select i.n::integer, case when q.name is null then 1 else 0 end, x.id, x.attempt, x.created_at, x.expires_at, x.visible_at, x.params
    from unnest($1, $2) with ordinality as i(queue, count, n)
    left join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
    left join lateral (
        select y.*, d.created_at, d.params
        from (select v.*
              from ((select h.id, h.attempt, h.expires_at, h.visible_at, h.priority, h.xid from deferred.__deferred_hot h
                     where h.queue = q.name and h.fn is null and h.due_at is null and (h.expires_at is null or h.expires_at > v_now)
                     order by h.queue, h.due_at nulls first, h.priority desc, h.xid, h.id limit i.count)
                    union all
                    (select h.id, h.attempt, h.expires_at, h.visible_at, h.priority, h.xid from deferred.__deferred_hot h
                     where h.queue = q.name and h.fn is null and h.due_at <= v_now and (h.expires_at is null or h.expires_at > v_now)
                     order by h.queue, h.due_at nulls first limit i.count)) v
              order by v.priority desc, v.visible_at, v.xid, v.id limit i.count) y
        cross join lateral (select d.created_at, d.params from deferred.__deferred d where d.id = y.id offset 0) d) x on true
    order by i.n, x.priority desc, x.visible_at, x.xid, x.id;
end
$_$;

ALTER FUNCTION deferred.__message_peek(queues text[], counts integer[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_peek(queues text[], counts integer[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_peek(queues text[], counts integer[]) IS 'visible messages, without taking them; one row a request at least';

--
-- Name: __message_poison(bigint[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_poison(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $_$
declare
    v_now timestamptz := clock_timestamp();
begin
    insert into deferred.__deferred_queue (name)
    select distinct h.queue || '-poison' from deferred.__deferred_hot h where h.id = any ($1) order by 1
    on conflict do nothing;
    update deferred.__deferred_queue q set removed_at = null
    where q.removed_at is not null and q.name in (select h.queue || '-poison' from deferred.__deferred_hot h where h.id = any ($1));
    with gone as (
        delete from deferred.__deferred_hot h where h.id = any ($1)
        returning h.id, h.queue || '-poison' as queue, h.attempt, h.priority, h.receipt, h.started_at),
    new as materialized (
        select g.*, nextval('deferred.__deferred_id_seq') as new_id,
               v_now + (select q.ttl_ms from deferred.__deferred_queue q where q.name = g.queue) * interval '1 millisecond' as expires_at
        from gone g order by g.id),
    hot as (
        insert into deferred.__deferred_hot (id, queue, priority, visible_at, expires_at, bounded)
        select n.new_id, n.queue, n.priority, v_now, n.expires_at,
               exists (select from deferred.__deferred_queue q where q.name = n.queue and q.max_length is not null)
        from new n),
    call as (
        insert into deferred.__deferred (id, queue, params, label, priority, expires_at, created_at, created_by)
        select n.new_id, n.queue, d.params, format('job %s, taken %s times', n.id, n.attempt), n.priority, n.expires_at, v_now, d.created_by
        from new n join deferred.__deferred d on d.id = n.id)
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, receipt)
    select n.id, case when n.receipt is null then 0 else n.attempt end, case when n.receipt is null then 'failed' else 'lost' end, true,
           format('taken %s times: moved to queue %s as job %s', n.attempt, n.queue, n.new_id), n.started_at, n.receipt
    from new n;
end
$_$;

ALTER FUNCTION deferred.__message_poison(ids bigint[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_poison(ids bigint[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_poison(ids bigint[]) IS 'moves messages that were taken too often to the queue NAME-poison';

--
-- Name: __message_put(text[], text[], bigint[], bigint[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_put(queues text[], texts text[], visibility_s bigint[], ttl_s bigint[]) RETURNS TABLE(item integer, status integer, id bigint, receipt bigint, inserted_at timestamp with time zone, expires_at timestamp with time zone, visible_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_now    timestamptz := clock_timestamp();
    v_actor  name := deferred.__actor();
    v_grants boolean := exists (select from deferred.__deferred_grant g where g.role in (v_actor, session_user));
begin
    return query
    with queue as materialized (
        select q.name, q.fn, q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop' as drop, q.limited_jobs,
               case when q.fn is not null then deferred.__is_limited(q.name, q.fn, null) else false end as limited,
               case when q.max_length is not null then greatest(0, q.max_length - deferred.__queue_length(q.name, q.max_length)) end as room,
               not v_grants or exists (
                   select from deferred.__deferred_grant g
                   where g.role in (v_actor, session_user) and (g.queue is null or g.queue = q.name) and (g.fn is null or g.fn = q.fn)) as allowed
        from deferred.__deferred_queue q where q.name = any ($1) and q.removed_at is null),
    sized as materialized (
        select i.n::integer as n, q.name as queue, q.fn, q.limited, q.max_length is not null as bounded, q.drop, q.room, p.params,
               case when i.visibility_s > 0 then v_now + i.visibility_s * interval '1 second' end as due_at,
               case when i.ttl_s > 0 then v_now + i.ttl_s * interval '1 second'
                    when q.ttl_ms is not null and i.ttl_s = 0 then v_now + q.ttl_ms * interval '1 millisecond'
                    when i.ttl_s = 0 then v_now + interval '7 days' end as expires_at,
               case when q.name is null then 1 when not q.allowed then 10 when octet_length(p.params::text) > q.params_max_bytes then 9
                    else 0 end as status
        from unnest($1, $2, $3, $4) with ordinality as i(queue, text, visibility_s, ttl_s, n)
        left join queue q on q.name = i.queue
        cross join lateral (
            select case when q.fn is null then to_json(i.text) else deferred.__message_params(i.text, true) end as params offset 0) p),
    place as materialized (
        select s.*, case when s.room is not null and s.status = 0
                         then count(*) filter (where s.status = 0) over (partition by s.queue order by s.n) > s.room else false end as full
        from sized s),
    job as materialized (
        select p.*, case when p.status = 0 and (not p.full or p.drop) then nextval('deferred.__deferred_id_seq') end as id,
               uuid_hash_extended(gen_random_uuid(), 0) as receipt
        from place p),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, due_at, visible_at, expires_at, limited, bounded, put_receipt)
        select j.id, j.queue, j.fn, j.due_at, coalesce(j.due_at, v_now), j.expires_at, j.limited, j.bounded, j.receipt
        from job j where j.id is not null and not j.full),
    call as (
        insert into deferred.__deferred (id, queue, fn, params, run_at, expires_at, created_at, created_by)
        select j.id, j.queue, j.fn, j.params, j.due_at, j.expires_at, v_now, v_actor
        from job j where j.id is not null and not j.full),
    marked as (
        update deferred.__deferred_queue q set limited_jobs = true
        where not q.limited_jobs and q.name in (select k.name from queue k where k.limited and not k.limited_jobs))
    select j.n, case when j.full and not j.drop then 4 else j.status end, j.id, j.receipt, v_now, j.expires_at, coalesce(j.due_at, v_now)
    from job j;
    perform deferred.__wake(q.name)
    from deferred.__deferred_queue q
    where q.name = any ($1) and q.fn is not null and exists (select from unnest($1, $3) i(queue, visibility_s) where i.queue = q.name and i.visibility_s < 60);
end
$_$;

ALTER FUNCTION deferred.__message_put(queues text[], texts text[], visibility_s bigint[], ttl_s bigint[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_put(queues text[], texts text[], visibility_s bigint[], ttl_s bigint[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_put(queues text[], texts text[], visibility_s bigint[], ttl_s bigint[]) IS 'puts messages, or calls where the queue has a function';

--
-- Name: __message_queue_acl(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_queue_acl(queue text, OUT status integer, OUT acl json) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    select case when q.name is null then 1 else 0 end, q.acl
    from (select) x left join deferred.__deferred_queue q on q.name = $1 and q.removed_at is null
$_$;

ALTER FUNCTION deferred.__message_queue_acl(queue text, OUT status integer, OUT acl json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_queue_acl(queue text, OUT status integer, OUT acl json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_queue_acl(queue text, OUT status integer, OUT acl json) IS 'the stored access policies of a queue';

--
-- Name: __message_queue_acl(text, json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_queue_acl(queue text, acl json) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    update deferred.__deferred_queue q set acl = $2 where q.name = $1 and q.removed_at is null;
    return case when found then 0 else 1 end;
end
$_$;

ALTER FUNCTION deferred.__message_queue_acl(queue text, acl json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_queue_acl(queue text, acl json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_queue_acl(queue text, acl json) IS 'replaces the stored access policies of a queue; NULL: none';

--
-- Name: __message_queue_create(text, json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_queue_create(queue text, metadata json) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    m record;
    q deferred.__deferred_queue;
    v_last bigint;
begin
    select * into m from deferred.__message_metadata_read($1, $2);
    if not m.ok then return 8; end if;
    if not deferred.__message_may($1, m.fn) then return 10; end if;
    insert into deferred.__deferred_queue (name, fn, max_dequeue, metadata) values ($1, m.fn, m.max_dequeue, m.rest) on conflict do nothing;
    if found then return 0; end if;
    select * into q from deferred.__deferred_queue x where x.name = $1 for update;
    if q.removed_at is null then
        return case when (select coalesce(jsonb_object_agg(lower(e.key), e.value), '{}')
                          from json_each_text(deferred.__message_metadata(q.metadata, q.fn, q.max_dequeue)) e)
                       = (select coalesce(jsonb_object_agg(lower(e.key), e.value), '{}')
                          from json_each_text(deferred.__message_metadata(m.rest, m.fn, m.max_dequeue)) e) then 6 else 5 end;
    end if;
    -- A queue made again is empty: of what is left of the former one, some at least is cleared now.
    v_last := deferred.__message_last_id();
    if (select c.more from deferred.__message_clear_some($1, v_last, 2000) c) then
        update deferred.__deferred_queue x set clearing_to = v_last where x.name = $1;
        return 7;
    end if;
    update deferred.__deferred_queue x
    set removed_at = null, clearing_to = null, created_at = clock_timestamp(), fn = m.fn, max_dequeue = m.max_dequeue, metadata = m.rest
    where x.name = $1;
    return 0;
end
$_$;

ALTER FUNCTION deferred.__message_queue_create(queue text, metadata json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_queue_create(queue text, metadata json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_queue_create(queue text, metadata json) IS 'makes a queue; its status';

--
-- Name: __message_queue_get(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_queue_get(queue text, OUT status integer, OUT metadata json, OUT messages bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    q deferred.__deferred_queue;
    v_exact constant integer := 10000;
    v_now timestamptz := clock_timestamp();
    v_plan json;
begin
    select * into q from deferred.__deferred_queue x where x.name = $1 and x.removed_at is null;
    if not found then
        status := 1;
        return;
    end if;
    status := 0;
    metadata := deferred.__message_metadata(q.metadata, q.fn, q.max_dequeue);
    select count(*) into messages
    from (select from deferred.__deferred_hot h where h.queue = $1 and h.fn is null and (h.expires_at is null or h.expires_at > v_now)
          union all
          select from deferred.__deferred_hot h where h.queue = $1 and h.fn is not null and h.due_at is null and not h.limited
          union all
          select from deferred.__deferred_hot h
          where h.queue = $1 and h.fn is not null and h.due_at is null and h.limited and h.concurrency_key is null
          union all
          select from deferred.__deferred_hot h
          where h.queue = $1 and h.fn is not null and h.concurrency_key is not null and (h.due_at is not null or h.limited)
          union all
          -- Delayed calls are not kept by queue: only some are looked at.
          select from (select h.queue, h.concurrency_key from deferred.__deferred_hot h where h.due_at is not null and h.fn is not null limit v_exact) x
          where x.queue = $1 and x.concurrency_key is null
          limit v_exact + 1) y;
    if messages > v_exact then
        execute 'explain (format json) select from deferred.__deferred_hot where queue = ' || quote_literal($1) into v_plan;
        messages := greatest(messages, (v_plan->0->'Plan'->>'Plan Rows')::numeric::bigint);
    end if;
end
$_$;

ALTER FUNCTION deferred.__message_queue_get(queue text, OUT status integer, OUT metadata json, OUT messages bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_queue_get(queue text, OUT status integer, OUT metadata json, OUT messages bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_queue_get(queue text, OUT status integer, OUT metadata json, OUT messages bigint) IS 'metadata of a queue and how many jobs it holds: beyond 10000 an estimate';

--
-- Name: __message_queue_metadata(text, json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_queue_metadata(queue text, metadata json) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    m record;
begin
    select * into m from deferred.__message_metadata_read($1, $2);
    if not m.ok then return 8; end if;
    if not deferred.__message_may($1, m.fn) then return 10; end if;
    update deferred.__deferred_queue q set fn = m.fn, max_dequeue = m.max_dequeue, metadata = m.rest
    where q.name = $1 and q.removed_at is null;
    return case when found then 0 else 1 end;
end
$_$;

ALTER FUNCTION deferred.__message_queue_metadata(queue text, metadata json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_queue_metadata(queue text, metadata json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_queue_metadata(queue text, metadata json) IS 'replaces the metadata of a queue';

--
-- Name: __message_queue_rm(text, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_queue_rm(queue text, batch integer, OUT status integer, OUT upto bigint, OUT more boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    perform from deferred.__deferred_queue q where q.name = $1 and q.removed_at is null for update;
    if not found then
        status := 1;
        more := false;
        return;
    end if;
    perform deferred.__queue_rm($1);
    upto := deferred.__message_last_id();
    select c.more into more from deferred.__message_clear_some($1, upto, $2) c;
    if more then
        update deferred.__deferred_queue q set clearing_to = upto where q.name = $1;
    end if;
    status := 0;
end
$_$;

ALTER FUNCTION deferred.__message_queue_rm(queue text, batch integer, OUT status integer, OUT upto bigint, OUT more boolean) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_queue_rm(queue text, batch integer, OUT status integer, OUT upto bigint, OUT more boolean); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_queue_rm(queue text, batch integer, OUT status integer, OUT upto bigint, OUT more boolean) IS 'removes a queue and clears some of its jobs; deferred.__message_clear() goes on while there are more';

--
-- Name: __message_queues(text, text, text, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_queues(account text, prefix text, from_name text, n integer) RETURNS TABLE(name text, metadata json)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    select substr(q.name, length($1) + 2), deferred.__message_metadata(q.metadata, q.fn, q.max_dequeue)
    from deferred.__deferred_queue q
    where q.name >= $1 || '.' || greatest(coalesce($2, '') collate "C", coalesce($3, '') collate "C") and q.name < $1 || '/'
      and starts_with(q.name, $1 || '.' || coalesce($2, '')) and q.removed_at is null
      and substr(q.name, length($1) + 2) ~ '^[a-z0-9](-?[a-z0-9])*$' and length(q.name) - length($1) - 1 between 3 and 63
    order by q.name limit $4
$_$;

ALTER FUNCTION deferred.__message_queues(account text, prefix text, from_name text, n integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_queues(account text, prefix text, from_name text, n integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_queues(account text, prefix text, from_name text, n integer) IS 'queues of an account, in the order of their names, without its name';

--
-- Name: __message_room(text[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_room(queues text[]) RETURNS json
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
declare
    v_now timestamptz;
begin
    insert into deferred.__deferred_limit (kind, queue, name)
    select 'queue', u.name, '' from unnest($1) as u(name)
    where not exists (select from deferred.__deferred_limit l where l.kind = 'queue' and l.queue = u.name and l.name = '')
    order by u.name on conflict do nothing;
    perform from deferred.__deferred_limit l where l.kind = 'queue' and l.queue = any ($1) and l.name = '' order by l.queue for update;
    v_now := clock_timestamp();  -- later than any holder before us looked at the clock
    return (
        select json_object_agg(l.queue, json_build_object('now', v_now, 'tokens', t.tokens, 'still', r.still,
                   'room', greatest(0, least(1000000000, q.max_running - cardinality(r.still), floor(t.tokens)))::integer))
        from deferred.__deferred_limit l
        join deferred.__deferred_queue q on q.name = l.queue
        cross join lateral (
            select array(select h.id from unnest(l.running) i join deferred.__deferred_hot h on h.id = i
                         where h.receipt is not null and h.visible_at > v_now) as still) r
        cross join lateral (
            select case when q.rate is not null then
                least(coalesce(q.burst, 1),
                      coalesce(l.tokens + greatest(0, extract(epoch from v_now - l.tokens_at))::double precision * q.rate, coalesce(q.burst, 1)))
                end as tokens) t
        where l.kind = 'queue' and l.queue = any ($1) and l.name = '');
end
$_$;

ALTER FUNCTION deferred.__message_room(queues text[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_room(queues text[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_room(queues text[]) IS 'how many messages the limits of these queues let be taken now; locks their rows';

--
-- Name: __message_running(text[], json, bigint[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_running(queues text[], room json, ids bigint[]) RETURNS void
    LANGUAGE sql
    AS $_$
    update deferred.__deferred_limit l
    set running = array(select e.id::bigint from json_array_elements_text($2->l.queue->'still') e(id) union select t.id from unnest(t.ids) t(id)),
        tokens = ($2->l.queue->>'tokens')::double precision - cardinality(t.ids), tokens_at = ($2->l.queue->>'now')::timestamptz,
        used_at = ($2->l.queue->>'now')::timestamptz
    from (select h.queue, array_agg(h.id) as ids from deferred.__deferred_hot h where h.id = any ($3) group by h.queue) t
    where l.kind = 'queue' and l.queue = t.queue and l.queue = any ($1) and l.name = ''
$_$;

ALTER FUNCTION deferred.__message_running(queues text[], room json, ids bigint[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_running(queues text[], room json, ids bigint[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_running(queues text[], room json, ids bigint[]) IS 'notes messages taken of queues with limits';

--
-- Name: __message_sweep(bigint, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_sweep(from_id bigint, batch integer, OUT expired bigint, OUT next_id bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
    v_queue record;
begin
    with seen as materialized (
        select h.id, h.fn is null and h.expires_at <= v_now as over from deferred.__deferred_hot h where h.id >= $1 order by h.id limit $2),
    row as materialized (
        select h.id from seen s join deferred.__deferred_hot h on h.id = s.id where s.over and h.expires_at <= v_now
        for update of h skip locked)
    select (select array_agg(r.id) from row r), coalesce((select max(s.id) + 1 from seen s having count(*) = $2), 0) into v_ids, next_id;
    expired := case when v_ids is null then 0 else deferred.__message_expire(v_ids) end;
    for v_queue in select q.name, q.clearing_to from deferred.__deferred_queue q where q.clearing_to is not null limit 10 for update skip locked loop
        if not (select c.more from deferred.__message_clear_some(v_queue.name, v_queue.clearing_to, 2000) c) then
            update deferred.__deferred_queue q set clearing_to = null where q.name = v_queue.name;
        end if;
    end loop;
end
$_$;

ALTER FUNCTION deferred.__message_sweep(from_id bigint, batch integer, OUT expired bigint, OUT next_id bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_sweep(from_id bigint, batch integer, OUT expired bigint, OUT next_id bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_sweep(from_id bigint, batch integer, OUT expired bigint, OUT next_id bigint) IS 'ends expired messages among the next some jobs, and clears what removed queues left behind; next_id 0: that was all';

--
-- Name: __message_text(json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_text(params json) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $_$
    select case when json_typeof($1) <> 'string' then $1::text
                when strpos($1::text, E'\\u') = 0 then $1 #>> '{}'
                else deferred.__message_text_escaped($1) end
$_$;

ALTER FUNCTION deferred.__message_text(params json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_text(params json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_text(params json) IS 'params of a message as its text: of a string what it says, else the JSON as it stands';

--
-- Name: __message_text_escaped(json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_text_escaped(params json) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
    return params #>> '{}';
exception when data_exception then
    return params::text;  -- what PostgreSQL cannot hold as text: \u0000, half a surrogate pair
end
$$;

ALTER FUNCTION deferred.__message_text_escaped(params json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_text_escaped(params json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_text_escaped(params json) IS 'part of deferred.__message_text(): a string with escapes in it';

--
-- Name: __message_update(text[], bigint[], bigint[], bigint[], text[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_update(queues text[], ids bigint[], receipts bigint[], visibility_s bigint[], texts text[]) RETURNS TABLE(item integer, status integer, receipt bigint, visible_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_now     timestamptz := clock_timestamp();
    v_done    integer[];
    v_id      bigint[];
    v_receipt bigint[];
    v_visible timestamptz[];
    v_large   integer[];
begin
    -- A queue's limit counts for what is stored; one look, for it is rarely met.
    select array_agg(i.n::integer) into v_large
    from unnest($1, $5) with ordinality as i(queue, text, n)
    join deferred.__deferred_queue q on q.name = i.queue
    where octet_length(i.text) * 6 > q.params_max_bytes and octet_length(to_json(i.text)::text) > q.params_max_bytes;
    with ours as materialized (
        select h.id, i.n
        from unnest($1, $2, $3) with ordinality as i(queue, id, receipt, n)
        join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
        join deferred.__deferred_hot h on h.id = i.id and h.queue = i.queue
        where deferred.__message_holds(i.receipt, h.receipt, h.put_receipt, h.attempt, h.worker)
          and (h.expires_at is null or h.expires_at > v_now) and i.n <> all (coalesce(v_large, '{}'))
        order by h.id for update of h),
    first as materialized (
        select o.id, min(o.n)::integer as n, uuid_hash_extended(gen_random_uuid(), 0) as receipt from ours o group by o.id),
    held as (
        update deferred.__deferred_hot h
        set receipt = case when h.receipt is not null then f.receipt end,
            put_receipt = case when h.receipt is null then f.receipt end,
            due_at = case when ($4)[f.n] > 0 then v_now + ($4)[f.n] * interval '1 second' end,
            visible_at = v_now + ($4)[f.n] * interval '1 second', xid = pg_current_xact_id()
        from first f where h.id = f.id
        returning h.id, f.n, f.receipt, h.visible_at, h.fn),
    call as (
        update deferred.__deferred d
        set params = case when h.fn is null then to_json(($5)[h.n]) else deferred.__message_params(($5)[h.n], true) end
        from held h where d.id = h.id and ($5)[h.n] is not null)
    select array_agg(h.n), array_agg(h.receipt), array_agg(h.visible_at), array_agg(h.id) filter (where h.fn is not null)
    into v_done, v_receipt, v_visible, v_id from held h;
    if v_id is not null then
        perform deferred.__wake(q.queue)
        from (select distinct h.queue from deferred.__deferred_hot h where h.id = any (v_id) and h.visible_at < v_now + interval '1 minute') q;
    end if;
    return query
    select w.item, case when w.item = any (v_large) and w.status = 3 then 9 else w.status end, d.receipt, d.visible_at
    from deferred.__message_why($1, $2, coalesce(v_done, '{}')) w
    left join unnest(v_done, v_receipt, v_visible) as d(n, receipt, visible_at) on d.n = w.item;
end
$_$;

ALTER FUNCTION deferred.__message_update(queues text[], ids bigint[], receipts bigint[], visibility_s bigint[], texts text[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_update(queues text[], ids bigint[], receipts bigint[], visibility_s bigint[], texts text[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_update(queues text[], ids bigint[], receipts bigint[], visibility_s bigint[], texts text[]) IS 'hides messages anew, each by its receipt, which is replaced, and may replace their texts';

--
-- Name: __message_why(text[], bigint[], integer[]); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__message_why(queues text[], ids bigint[], done integer[]) RETURNS TABLE(item integer, status integer)
    LANGUAGE plpgsql
    AS $_$
begin
    if cardinality($3) = cardinality($1) then
        return query select n, 0 from generate_series(1, cardinality($1)) n;
        return;
    end if;
    return query
    select i.n::integer,
           case when i.n = any ($3) then 0
                when not exists (select from deferred.__deferred_queue q where q.name = i.queue and q.removed_at is null) then 1
                when exists (select from deferred.__deferred_hot h where h.id = i.id and h.queue = i.queue
                             and (h.expires_at is null or h.expires_at > clock_timestamp())) then 3
                else 2 end
    from unnest($1, $2) with ordinality as i(queue, id, n);
end
$_$;

ALTER FUNCTION deferred.__message_why(queues text[], ids bigint[], done integer[]) OWNER TO deferred_owner;

--
-- Name: FUNCTION __message_why(queues text[], ids bigint[], done integer[]); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__message_why(queues text[], ids bigint[], done integer[]) IS 'status of each request; those in done are';

--
-- Name: __ms(text, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__ms(name text, span text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT
    AS $_$
declare
    m text[] := regexp_match(span, '^([0-9]+(?:[.][0-9]+)?)(ms|s|min|m|h|d)?$');
begin
    if m is null or length(m[1]) > 12 then
        raise exception using errcode = '22023',
            message = format('invalid time span %L for option "%s"', left(span, 200), name),
            hint = 'write a number and a unit: 200ms, 5s, 10min, 2h, 30d';
    end if;
    return round(m[1]::numeric * case m[2] when 'ms' then 1 when 'm' then 60000 when 'min' then 60000
                                           when 'h' then 3600000 when 'd' then 86400000 else 1000 end);
end
$_$;

ALTER FUNCTION deferred.__ms(name text, span text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __ms(name text, span text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__ms(name text, span text) IS 'a time span as people write it, in milliseconds';

--
-- Name: __opts_ok(text, text, integer, bigint, bigint, bigint, double precision); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__opts_ok(label text, key text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
    select not coalesce(length(label) > 1000 or length(key) not between 1 and 1000 or octet_length(key) > 2500 or max_attempts < 1 or timeout_ms < 1
        or backoff_floor_ms < 1 or backoff_ceiling_ms < 1 or backoff_exponent not between 1 and 100, false)
$$;

ALTER FUNCTION deferred.__opts_ok(label text, key text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision) OWNER TO deferred_owner;

--
-- Name: FUNCTION __opts_ok(label text, key text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__opts_ok(label text, key text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision) IS 'true if these options of a job are in range';

--
-- Name: __purge_jobs(interval, bigint, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__purge_jobs(older_than interval, from_id bigint, batch integer, OUT purged bigint, OUT next_id bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_cutoff timestamptz := clock_timestamp() - older_than;
begin
    with seen as materialized (
        select d.id, d.created_at from deferred.__deferred d where d.id >= from_id order by d.id limit batch),
    gone as (
        delete from deferred.__deferred d using seen s
        where d.id = s.id and s.created_at < v_cutoff
          and not exists (select from deferred.__deferred_hot h where h.id = d.id)
          and not exists (select from deferred.__deferred_log l where l.job_id = d.id)
        returning 1)
    select (select count(*) from gone),
           (select max(id) + 1 from seen having bool_or(seen.created_at < v_cutoff))
    into purged, next_id;
end
$$;

ALTER FUNCTION deferred.__purge_jobs(older_than interval, from_id bigint, batch integer, OUT purged bigint, OUT next_id bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __purge_jobs(older_than interval, from_id bigint, batch integer, OUT purged bigint, OUT next_id bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__purge_jobs(older_than interval, from_id bigint, batch integer, OUT purged bigint, OUT next_id bigint) IS 'part of "deferred purge": deletes outlived jobs from some ids on';

--
-- Name: __purge_log(regclass, interval, bigint, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__purge_log(part regclass, older_than interval, page bigint, pages integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_rows bigint;
begin
    if not exists (select from pg_inherits i where i.inhrelid = part and i.inhparent = 'deferred.__deferred_log'::regclass) then
        raise exception using errcode = '22023', message = format('%s is no partition of the log', part);
    end if;
    execute format('delete from %s l where l.ctid >= %L::tid and l.ctid < %L::tid and l.finished_at < %L
                    and not exists (select from deferred.__deferred_hot h where h.id = l.job_id)',
                   part, format('(%s,0)', page), format('(%s,0)', page + pages), clock_timestamp() - older_than);
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;

ALTER FUNCTION deferred.__purge_log(part regclass, older_than interval, page bigint, pages integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __purge_log(part regclass, older_than interval, page bigint, pages integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__purge_log(part regclass, older_than interval, page bigint, pages integer) IS 'part of "deferred purge": deletes outlived rows from some pages of a log partition';

--
-- Name: __purge_partition(interval); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__purge_partition(older_than interval) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '100ms'
    AS $_$
declare
    v_cutoff timestamptz := clock_timestamp() - older_than;
    p record;
    v_hit boolean;
begin
    for p in
        select c.relname, i.inhparent = 'deferred.__deferred_log'::regclass as is_log,
               (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('([^']+)'\) TO \('([^']+)'\)$re$)) as bound
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent in ('deferred.__deferred_log'::regclass, 'deferred.__deferred'::regclass)
          and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
        order by is_log desc, c.relname
    loop
        if p.is_log then
            continue when p.bound[2]::timestamptz > v_cutoff;
            -- Attempts of a hot job stay: the other rows go page by page.
            continue when exists (
                select from deferred.__deferred_hot h join deferred.__deferred_log l on l.job_id = h.id
                where h.attempt > 0 and l.finished_at >= p.bound[1]::timestamptz and l.finished_at < p.bound[2]::timestamptz);
        else
            continue when p.bound[2]::bigint > (select last_value from deferred.__deferred_id_seq);
            continue when exists (select from deferred.__deferred_hot h where h.id >= p.bound[1]::bigint and h.id < p.bound[2]::bigint);
            continue when exists (select from deferred.__deferred_log l where l.job_id >= p.bound[1]::bigint and l.job_id < p.bound[2]::bigint);
            execute format('select exists (select from deferred.%I where created_at >= %L)', p.relname, v_cutoff) into v_hit;
            continue when v_hit;
        end if;
        execute format('drop table deferred.%I', p.relname);
        return p.relname;
    end loop;
    return null;
exception when lock_not_available then
    return null;
end
$_$;

ALTER FUNCTION deferred.__purge_partition(older_than interval) OWNER TO deferred_owner;

--
-- Name: FUNCTION __purge_partition(older_than interval); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__purge_partition(older_than interval) IS 'part of "deferred purge": drops one outlived partition';

--
-- Name: __purge_workers(interval); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__purge_workers(older_than interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_rows bigint;
begin
    delete from deferred.__deferred_worker w where coalesce(w.ended_at, w.seen_at) < clock_timestamp() - older_than
       and not exists (select from unnest(w.held) i join deferred.__deferred_hot h on h.id = i where h.worker = w.id);
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;

ALTER FUNCTION deferred.__purge_workers(older_than interval) OWNER TO deferred_owner;

--
-- Name: FUNCTION __purge_workers(older_than interval); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__purge_workers(older_than interval) IS 'part of "deferred purge": deletes rows of runs ended long ago';

--
-- Name: __queue_clear(text, bigint, bigint, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__queue_clear(queue text, from_id bigint, to_id bigint, batch integer, OUT cancelled bigint, OUT next_id bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_workers bigint[];
begin
    with seen as materialized (
        select h.id, h.queue from deferred.__deferred_hot h where h.id between $2 and $3 order by h.id limit batch),
    gone as (
        delete from deferred.__deferred_hot h using seen s where h.id = s.id and s.queue = $1
        returning h.id, h.attempt, h.receipt, h.started_at, h.worker),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
        select g.id, case when g.receipt is null then 0 else g.attempt end, 'cancelled', true,
               format('queue cleared by %s', deferred.__actor()), g.started_at, g.worker, g.receipt
        from gone g)
    select (select count(*) from gone), (select max(s.id) + 1 from seen s having count(*) = batch),
           array(select distinct g.worker from gone g where g.worker is not null)
    into cancelled, next_id, v_workers;
    perform pg_notify('deferred', '!' || w) from unnest(v_workers) w;
end
$_$;

ALTER FUNCTION deferred.__queue_clear(queue text, from_id bigint, to_id bigint, batch integer, OUT cancelled bigint, OUT next_id bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __queue_clear(queue text, from_id bigint, to_id bigint, batch integer, OUT cancelled bigint, OUT next_id bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__queue_clear(queue text, from_id bigint, to_id bigint, batch integer, OUT cancelled bigint, OUT next_id bigint) IS 'part of "deferred queue clear": cancels some jobs of a queue';

--
-- Name: __queue_expiry(text, timestamp with time zone); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__queue_expiry(queue text, since timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $_$
    select $2 + q.ttl_ms * interval '1 millisecond' from deferred.__deferred_queue q where q.name = $1
$_$;

ALTER FUNCTION deferred.__queue_expiry(queue text, since timestamp with time zone) OWNER TO deferred_owner;

--
-- Name: FUNCTION __queue_expiry(queue text, since timestamp with time zone); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__queue_expiry(queue text, since timestamp with time zone) IS 'when a job without an expiry of its own expires';

--
-- Name: __queue_length(text, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__queue_length(queue text, stop integer) RETURNS bigint
    LANGUAGE sql STABLE
    AS $_$
    select count(*) from (select from deferred.__deferred_hot h where h.queue = $1 and h.bounded limit $2) x
$_$;

ALTER FUNCTION deferred.__queue_length(queue text, stop integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __queue_length(queue text, stop integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__queue_length(queue text, stop integer) IS 'hot jobs of a queue that has a max_length, counted as far as stop';

--
-- Name: __queue_rm(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__queue_rm(name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    if $1 = 'default' then
        raise exception using errcode = '55000', message = 'queue ''default'' cannot be removed',
            hint = 'jobs that name no queue go there; "deferred queue clear default" empties it';
    end if;
    update deferred.__deferred_queue q
    set (paused, params_max_bytes, visibility_timeout_ms, ttl_ms, max_attempts, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent,
         max_running, rate, burst, max_length, on_full, fn, metadata, weight, max_dequeue, acl, removed_at)
      = (false, 1048576, null, null, null, null, null, null, null, null, null, null, 'error', null, null, 1, null, null, clock_timestamp())
    where q.name = $1 and q.removed_at is null;
    if not found then
        raise exception using errcode = '42704', message = format('no queue %L', left($1, 200));
    end if;
end
$_$;

ALTER FUNCTION deferred.__queue_rm(name text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __queue_rm(name text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__queue_rm(name text) IS 'part of "deferred queue rm": forgets the settings of a queue and hides it until a job is deferred to it';

--
-- Name: __queue_set(text, json, boolean); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__queue_set(name text, settings json, add boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_old deferred.__deferred_queue;
    v_new deferred.__deferred_queue;
    v_unknown text;
begin
    if json_typeof(settings) is distinct from 'object' then
        raise exception using errcode = '22023', message = format('settings are a JSON %s, not an object', coalesce(json_typeof(settings), 'null'));
    end if;
    select k into v_unknown from json_object_keys(settings) k
    where k not in ('paused', 'params_max_bytes', 'visibility_timeout_ms', 'ttl_ms', 'max_attempts', 'backoff_floor_ms',
        'backoff_ceiling_ms', 'backoff_exponent', 'max_running', 'rate', 'burst', 'max_length', 'on_full', 'fn', 'metadata', 'weight',
        'max_dequeue')
    limit 1;
    if found then
        raise exception using errcode = '22023', message = format('unknown setting %s of queue %L', quote_ident(left(v_unknown, 200)), left($1, 200)),
            hint = 'deferred(1) lists the settings';
    end if;
    if $3 then
        if $1 !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
            raise exception using errcode = '22023', message = format('invalid queue name %L', left($1, 200)),
                hint = 'a name has 1 to 88 letters, digits, "_", "." and "-"';
        end if;
        insert into deferred.__deferred_queue (name) values ($1) on conflict do nothing;
        update deferred.__deferred_queue q set removed_at = null where q.name = $1 and q.removed_at is not null;
    end if;
    select * into v_old from deferred.__deferred_queue q where q.name = $1 and q.removed_at is null for update;
    if not found then
        raise exception using errcode = '42704', message = format('no queue %L', left($1, 200)),
            hint = 'a queue is added by the first job deferred to it, or by: deferred queue set NAME --create';
    end if;
    v_new := json_populate_record(v_old, settings);
    v_new.paused := coalesce(v_new.paused, false);
    v_new.params_max_bytes := coalesce(v_new.params_max_bytes, 1048576);
    v_new.on_full := coalesce(v_new.on_full, 'error');
    v_new.weight := coalesce(v_new.weight, 1);
    if v_new.burst is not null and v_new.rate is null then
        raise exception using errcode = '22023', message = format('queue %L has a burst of %s, but no rate', $1, v_new.burst),
            hint = 'set the rate too, or unset the burst';
    end if;
    if v_new.max_dequeue is not null and length($1) > 81 then
        raise exception using errcode = '22023', message = format('the name of queue %L is too long for max_dequeue', $1),
            hint = 'the queue NAME-poison takes its messages: NAME may have 81 characters';
    end if;
    if v_new.backoff_ceiling_ms < v_new.backoff_floor_ms then
        raise exception using errcode = '22023', message = format('queue %L: back-off ceiling %s ms is below its floor %s ms', $1,
            v_new.backoff_ceiling_ms, v_new.backoff_floor_ms);
    end if;
    if coalesce(v_new.max_running, v_new.rate) is not null then
        v_new.limited_jobs := true;
    end if;
    update deferred.__deferred_queue q
    set (paused, params_max_bytes, visibility_timeout_ms, ttl_ms, max_attempts, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent,
         max_running, rate, burst, max_length, on_full, fn, metadata, weight, limited_jobs, max_dequeue)
      = (v_new.paused, v_new.params_max_bytes, v_new.visibility_timeout_ms, v_new.ttl_ms, v_new.max_attempts, v_new.backoff_floor_ms,
         v_new.backoff_ceiling_ms, v_new.backoff_exponent, v_new.max_running, v_new.rate, v_new.burst, v_new.max_length, v_new.on_full,
         v_new.fn, v_new.metadata, v_new.weight, v_new.limited_jobs, v_new.max_dequeue)
    where q.name = $1;
exception when check_violation then
    raise exception using errcode = '22003', message = format('a setting of queue %L is out of range: %s', $1, left(settings::text, 300)),
        hint = 'deferred(1) lists the settings with their ranges';
end
$_$;

ALTER FUNCTION deferred.__queue_set(name text, settings json, add boolean) OWNER TO deferred_owner;

--
-- Name: FUNCTION __queue_set(name text, settings json, add boolean); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__queue_set(name text, settings json, add boolean) IS 'changes settings of a queue; call deferred.__mark() until it is done, where a limit changed';

--
-- Name: __refuse_receipt(bigint, bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__refuse_receipt(id bigint, receipt bigint) RETURNS void
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
declare
    v_outcome text;
    v_receipt bigint;
begin
    if $1 is null or $2 is null then
        raise exception using errcode = '22004', message = 'job id or receipt is NULL',
            hint = 'a function finds both in the call it is given';
    end if;
    select l.outcome into v_outcome from deferred.__deferred_log l where l.job_id = $1 and l.receipt = $2
    order by l.finished_at desc limit 1;
    select h.receipt into v_receipt from deferred.__deferred_hot h where h.id = $1;
    raise exception using errcode = '55000',
        message = format('job %s is not held by this receipt: %s', $1,
            case when v_outcome = 'ok' then 'it has been finished already'
                 when v_outcome = 'cancelled' then 'it was cancelled'
                 when v_outcome is not null then format('that attempt has been recorded as %s', v_outcome)
                 when v_receipt = $2 then 'its lease has ended'
                 when v_receipt is not null then 'it was claimed again'
                 else 'it is not being run' end),
        hint = 'roll back what was done for it: if it is still to be done, another attempt does it';
end
$_$;

ALTER FUNCTION deferred.__refuse_receipt(id bigint, receipt bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __refuse_receipt(id bigint, receipt bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__refuse_receipt(id bigint, receipt bigint) IS 'says why a receipt is not valid; part of finish() and extend()';

--
-- Name: __rule_add(text, text, text, json, text, text, integer, json, bigint, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_add(name text, query text, fn text, params json, key_column text, queue text, priority integer, opts json, statement_timeout_ms bigint, search_path text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_queue text collate "C" := coalesce($6, 'default');
    v_opts  json := coalesce($8, '{}');
    v_owner oid := (select r.oid from pg_roles r where r.rolname = deferred.__actor());
    k text;
    v text;
    v_id bigint;
begin
    if $1 is null or $1 !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
        raise exception using errcode = '22023', message = format('invalid rule name %L', left($1, 200)),
            hint = 'a name has 1 to 88 letters, digits, "_", "." and "-"';
    end if;
    if $3 is null or length($3) > 127 or $3 !~ '^[A-Za-z_][A-Za-z0-9_.]*$' then
        raise exception using errcode = '22023', message = format('invalid function name %L', left($3, 200)),
            hint = 'a name has 1 to 127 letters, digits, "_" and ".", and begins with a letter or "_"';
    end if;
    if v_queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
        raise exception using errcode = '22023', message = format('invalid queue name %L', left(v_queue, 200)),
            hint = 'a name has 1 to 88 letters, digits, "_", "." and "-"';
    end if;
    if coalesce(btrim($2, E' \t\r\n;'), '') = '' then
        raise exception using errcode = '22023', message = format('the query of rule %L is empty', $1),
            hint = 'write one SELECT, each row of which becomes a job';
    end if;
    if coalesce($5, '') = '' then
        raise exception using errcode = '22023', message = format('rule %L names no key column', $1),
            hint = 'name the column of the query that tells its rows apart: no two jobs of a queue with the same key are hot';
    end if;
    if json_typeof($4) <> 'object' or json_typeof(v_opts) <> 'object' then
        raise exception using errcode = '22023', message = format('params of rule %L are a JSON %s, not an object', $1, json_typeof($4)),
            hint = 'for example {"archive": "2026"}';
    end if;
    select o.key into k from json_object_keys($4) as o(key) where octet_length(o.key) not between 1 and 63 limit 1;
    if found then
        raise exception using errcode = '22023', message = format('invalid member %L in the params of rule %L', left(k, 200), $1),
            hint = 'its name stands beside the names of columns, and so has 1 to 63 bytes';
    end if;
    if $7 not between -32768 and 32767 then
        raise exception using errcode = '22003', message = format('priority %s is out of range', $7),
            hint = 'use -32768 to 32767; larger is taken earlier';
    end if;
    if $9 not between 1 and 2147483647 then
        raise exception using errcode = '22003', message = format('statement timeout %s ms is out of range', $9),
            hint = 'use 1 ms to 24 days';
    end if;
    for k, v in select * from json_each_text(v_opts) loop
        if k not in ('label', 'delay', 'expires', 'max_attempts', 'timeout', 'backoff_floor', 'backoff_ceiling', 'backoff_exponent') then
            raise exception using errcode = '22023', message = format('unknown option "%s"', left(k, 200)),
                hint = 'options: label, delay, expires, max_attempts, timeout, backoff_floor, backoff_ceiling, backoff_exponent';
        end if;
        if (k = 'max_attempts' and v !~ '^-?[0-9]{1,9}$') or (k = 'backoff_exponent' and v !~ '^[0-9]{1,3}([.][0-9]{1,9})?$') then
            raise exception using errcode = '22023', message = format('invalid value %L for option "%s"', left(v, 200), k),
                hint = 'it takes a number';
        end if;
    end loop;
    if deferred.__ms('delay', v_opts->>'delay') < 0 or deferred.__ms('expires', v_opts->>'expires') < 0
       or not deferred.__opts_ok(v_opts->>'label', null, (v_opts->>'max_attempts')::integer, deferred.__ms('timeout', v_opts->>'timeout'),
              deferred.__ms('backoff_floor', v_opts->>'backoff_floor'), deferred.__ms('backoff_ceiling', v_opts->>'backoff_ceiling'),
              (v_opts->>'backoff_exponent')::double precision) then
        raise exception using errcode = '22003', message = format('an option of rule %L is out of range', $1),
            hint = 'label: at most 1000 characters; max_attempts, timeout and back-off delays: more than 0; backoff_exponent: 1 to 100';
    end if;
    if not deferred.__rule_may_defer(deferred.__actor(), v_queue, $3) then
        raise exception using errcode = '42501', message = format('role %I may not defer %L to queue %L', deferred.__actor(), $3, v_queue),
            hint = 'an administrator grants it by a row in deferred.__deferred_grant';
    end if;
    insert into deferred.__deferred_rule (name, query, fn, params, key_column, queue, priority, opts, owner, search_path, statement_timeout_ms)
    values ($1, btrim($2, E' \t\r\n;'), $3, $4, $5, v_queue, coalesce($7, 0), v_opts, v_owner, $10, $9)
    on conflict (name) do nothing returning id into v_id;
    if v_id is null then
        raise exception using errcode = '23505', message = format('there is a rule %L already', $1),
            hint = format('remove it first: deferred rule rm %s', $1);
    end if;
    return v_id;
end
$_$;

ALTER FUNCTION deferred.__rule_add(name text, query text, fn text, params json, key_column text, queue text, priority integer, opts json, statement_timeout_ms bigint, search_path text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_add(name text, query text, fn text, params json, key_column text, queue text, priority integer, opts json, statement_timeout_ms bigint, search_path text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_add(name text, query text, fn text, params json, key_column text, queue text, priority integer, opts json, statement_timeout_ms bigint, search_path text) IS 'stores a rule, which then belongs to the role that acts; part of "deferred rule add"';

--
-- Name: __rule_failed(text, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_failed(name text, error text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    v_id bigint := (deferred.__rule_get($1, true)).id;
begin
    update deferred.__deferred_rule x
    set last_run_at = clock_timestamp(), last_run_ms = null, last_run_by = deferred.__actor(), last_queued = null, last_skipped = null,
        last_failed = null, last_error = left($2, 2000)
    where x.id = v_id;
end
$_$;

ALTER FUNCTION deferred.__rule_failed(name text, error text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_failed(name text, error text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_failed(name text, error text) IS 'notes that a run failed as a whole, which has rolled back what it did';

--
-- Name: __rule_fetch(); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_fetch() RETURNS TABLE(key text, params json)
    LANGUAGE plpgsql ROWS 10000
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET transaction_read_only TO 'on'
    AS $$
#variable_conflict use_column
declare
    v_before bigint := (select count(*) from pg_locks l where l.pid = pg_backend_pid() and l.locktype = 'transactionid');
begin
    begin
        return query execute 'select r.key, r.params from pg_temp.__deferred_rule_rows() r';
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        if (select count(*) from pg_locks l where l.pid = pg_backend_pid() and l.locktype = 'transactionid') <> v_before then
            raise exception using errcode = '25006', message = 'the query of the rule wrote to the database',
                hint = 'a rule reads; leave writing to the function of its jobs';
        end if;
        if exists (select from pg_cursors c where c.is_holdable) then
            raise exception using errcode = '24000', message = 'the query of the rule left a cursor open';
        end if;
    exception when sqlstate 'DR000' then  -- nobody raises that: the block is there for its subtransaction
        raise;
    end;
end
$$;

ALTER FUNCTION deferred.__rule_fetch() OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_fetch(); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_fetch() IS 'the rows of a rule as key and params; part of __rule_run()';

--
-- Name: __deferred_rule; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_rule (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    query text NOT NULL,
    fn text NOT NULL COLLATE pg_catalog."C",
    params json DEFAULT '{}'::json NOT NULL,
    key_column text NOT NULL,
    queue text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    priority smallint DEFAULT 0 NOT NULL,
    opts json DEFAULT '{}'::json NOT NULL,
    owner regrole NOT NULL,
    search_path text NOT NULL,
    statement_timeout_ms integer NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_run_at timestamp with time zone,
    last_run_ms bigint,
    last_run_by name,
    last_queued bigint,
    last_skipped bigint,
    last_failed bigint,
    last_error text,
    CONSTRAINT __deferred_rule_name_check CHECK ((name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'::text)),
    CONSTRAINT __deferred_rule_statement_timeout_ms_check CHECK ((statement_timeout_ms > 0))
);

ALTER TABLE deferred.__deferred_rule OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_rule; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_rule IS 'stored queries whose rows become jobs';

--
-- Name: COLUMN __deferred_rule.id; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.id IS 'rule id';

--
-- Name: COLUMN __deferred_rule.name; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.name IS 'name it is run by';

--
-- Name: COLUMN __deferred_rule.query; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.query IS 'one SELECT; each row becomes a job';

--
-- Name: COLUMN __deferred_rule.fn; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.fn IS 'function of the jobs';

--
-- Name: COLUMN __deferred_rule.params; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.params IS 'object whose members every job gets, but for those the query has a column for';

--
-- Name: COLUMN __deferred_rule.key_column; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.key_column IS 'column whose text is the key of the job';

--
-- Name: COLUMN __deferred_rule.queue; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.queue IS 'queue of the jobs';

--
-- Name: COLUMN __deferred_rule.priority; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.priority IS 'priority of the jobs';

--
-- Name: COLUMN __deferred_rule.opts; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.opts IS 'further options of the jobs, as deferred.defer() takes them';

--
-- Name: COLUMN __deferred_rule.owner; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.owner IS 'role that added it; the query runs with its rights, the jobs are its jobs. By oid: a role made anew by that name is another one';

--
-- Name: COLUMN __deferred_rule.search_path; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.search_path IS 'the search_path of its owner when it was added';

--
-- Name: COLUMN __deferred_rule.statement_timeout_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.statement_timeout_ms IS 'limit of one run, milliseconds';

--
-- Name: COLUMN __deferred_rule.created_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.created_at IS 'when it was added (database clock)';

--
-- Name: COLUMN __deferred_rule.last_run_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.last_run_at IS 'when the last run began (database clock)';

--
-- Name: COLUMN __deferred_rule.last_run_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.last_run_ms IS 'what it took, milliseconds';

--
-- Name: COLUMN __deferred_rule.last_run_by; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.last_run_by IS 'role that ran it';

--
-- Name: COLUMN __deferred_rule.last_queued; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.last_queued IS 'rows it made jobs of; NULL: it failed as a whole';

--
-- Name: COLUMN __deferred_rule.last_skipped; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.last_skipped IS 'rows whose key was hot already';

--
-- Name: COLUMN __deferred_rule.last_failed; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.last_failed IS 'rows without a key, or beyond a limit of the queue';

--
-- Name: COLUMN __deferred_rule.last_error; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_rule.last_error IS 'why it failed';

--
-- Name: __rule_get(text, boolean); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_get(name text, taking boolean) RETURNS deferred.__deferred_rule
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    r deferred.__deferred_rule;
begin
    select * into r from deferred.__deferred_rule x where x.name = $1;
    if not found then
        raise exception using errcode = 'P0002', message = format('there is no rule %L', left($1, 200)), hint = 'deferred rule ls shows them';
    end if;
    if not deferred.__rule_is_mine(r.owner) then
        raise exception using errcode = '42501',
            message = format('rule %L belongs to role %s, of which %I is no member', r.name, r.owner, deferred.__actor()),
            hint = format('run it as that role, or grant %s', r.owner);
    end if;
    if taking then
        select * into r from deferred.__deferred_rule x where x.id = r.id for no key update skip locked;
        if not found then
            raise exception using errcode = '55006', message = format('rule %L is being run', $1),
                hint = 'wait until that run has ended; it makes jobs of the same rows';
        end if;
    end if;
    return r;
end
$_$;

ALTER FUNCTION deferred.__rule_get(name text, taking boolean) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_get(name text, taking boolean); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_get(name text, taking boolean) IS 'a rule for the owner and members of it';

--
-- Name: __rule_is_mine(regrole); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_is_mine(owner regrole) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    -- An owner that was dropped is nobody's.
    select exists (select from pg_roles r where r.oid = owner and pg_has_role(deferred.__actor(), r.oid, 'member'))
$$;

ALTER FUNCTION deferred.__rule_is_mine(owner regrole) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_is_mine(owner regrole); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_is_mine(owner regrole) IS 'true for the owner of a rule and members of it';

--
-- Name: __rule_look(text, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_look(name text, sample integer) RETURNS TABLE(estimate double precision, plan text, key text, params json)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    r deferred.__deferred_rule := deferred.__rule_get($1, false);
begin
    perform deferred.__rule_make(r, '__deferred_rule_look() returns table (estimate double precision, plan text, key text, params json)', 'volatile', format($f$
#variable_conflict use_column
declare
    v_row json; v_columns text[]; v_extra text; v_query text; v_line text;
begin%s
    execute 'explain (format json) ' || v_query into v_row;
    estimate := (v_row->0->'Plan'->>'Plan Rows')::double precision;
    for v_line in execute E'explain select * from (\n' || %L || E'\n) as __deferred_query' loop
        plan := concat_ws(E'\n', plan, v_line);
    end loop;
    return next;
    if %s > 0 then
        return query execute 'select null::pg_catalog.float8, null::pg_catalog.text, x.* from (' || v_query || ' limit %s) x (key, params)';
    end if;
end$f$, deferred.__rule_prologue(r), r.query, sample, sample));
    return query execute 'select * from pg_temp.__deferred_rule_look()';
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
end
$_$;

ALTER FUNCTION deferred.__rule_look(name text, sample integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_look(name text, sample integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_look(name text, sample integer) IS 'estimate and plan of a rule in the first row, its first rows as jobs in the others; to be rolled back';

--
-- Name: __rule_make(deferred.__deferred_rule, text, text, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_make(r deferred.__deferred_rule, what text, volatility text, body text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_owner name := (select x.rolname from pg_roles x where x.oid = r.owner);
    v_role  text := current_setting('role');
    v_sql   text := format(E'create function pg_temp.%s language plpgsql %s security definer set transaction_read_only = on '
                           'set search_path = pg_catalog, pg_temp as %L', what, volatility, body);
begin
    if not has_database_privilege(r.owner, current_database(), 'temporary') then
        raise exception using errcode = '42501', message = format('role %I, which owns rule %L, may not make temporary objects', v_owner, r.name),
            hint = format('grant temporary on database %I to %I', current_database(), v_owner);
    end if;
    perform set_config('role', v_owner, true);
    execute v_sql;
    execute format('grant execute on function pg_temp.%s to deferred_owner', split_part(what, ' returns', 1));
    perform set_config('role', v_role, true);
end
$$;

ALTER FUNCTION deferred.__rule_make(r deferred.__deferred_rule, what text, volatility text, body text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_make(r deferred.__deferred_rule, what text, volatility text, body text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_make(r deferred.__deferred_rule, what text, volatility text, body text) IS 'makes a function that evaluates a rule with the rights of its owner';

--
-- Name: __rule_may_defer(name, text, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_may_defer(owner name, queue text, fn text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $_$
    select coalesce(bool_and(x.allowed), true)
    from (select bool_or((g.queue is null or g.queue = $2) and (g.fn is null or g.fn = $3)) as allowed
          from deferred.__deferred_grant g where g.role in ($1, deferred.__actor(), session_user)
          group by (g.role = $1)) x
$_$;

ALTER FUNCTION deferred.__rule_may_defer(owner name, queue text, fn text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_may_defer(owner name, queue text, fn text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_may_defer(owner name, queue text, fn text) IS 'true if neither the owner of a rule nor who acts is kept from deferring that';

--
-- Name: __rule_open(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_open(name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    r deferred.__deferred_rule := deferred.__rule_get($1, true);
begin
    perform deferred.__rule_make(r, '__deferred_rule_rows() returns table (key text, params json)', 'stable', format($f$
declare
    v_row json; v_columns text[]; v_extra text; v_query text;
begin%s
    return query execute v_query;
end$f$, deferred.__rule_prologue(r)));
end
$_$;

ALTER FUNCTION deferred.__rule_open(name text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_open(name text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_open(name text) IS 'takes a rule and makes ready what __rule_run() reads from';

--
-- Name: __rule_prologue(deferred.__deferred_rule); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_prologue(r deferred.__deferred_rule) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    select format($f$
    perform pg_catalog.set_config('search_path', %1$L, true);
    execute %2$L into v_row;
    select array_agg(o.key) into v_columns from pg_catalog.json_object_keys(v_row) as o(key);
    if v_columns is null or not %3$L = any (v_columns) then
        raise exception using errcode = '22023', message = format('the query of rule "%%s" has no column "%%s"', %4$L, %3$L),
            hint = format('its columns: %%s', array_to_string(v_columns, ', '));
    end if;
    if (select count(distinct c.name) from unnest(v_columns) as c(name)) <> cardinality(v_columns) then
        raise exception using errcode = '22023', message = format('the query of rule "%%s" has two columns of one name', %4$L),
            hint = format('its columns: %%s', array_to_string(v_columns, ', '));
    end if;
    select coalesce(string_agg(format('%%L::pg_catalog.json as %%I, ', p.value::text, p.key), ''), '') into v_extra
    from pg_catalog.json_each(%5$L::pg_catalog.json) as p where not p.key = any (v_columns);
    v_query := format(E'select __deferred_row.%%I::pg_catalog.text, pg_catalog.row_to_json(__deferred_row)'
                      ' from (select %%s __deferred_query.* from (\n%%s\n) as __deferred_query) as __deferred_row',
                      %3$L, v_extra, %6$L);$f$,
        r.search_path,
        format(E'select pg_catalog.row_to_json(__deferred_row) from (select __deferred_none.* from (select) as __deferred_one left join '
               '(select * from (\n%s\n) as __deferred_query limit 0) as __deferred_none on true) as __deferred_row', r.query),
        r.key_column, r.name, r.params::text, r.query)
$_$;

ALTER FUNCTION deferred.__rule_prologue(r deferred.__deferred_rule) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_prologue(r deferred.__deferred_rule); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_prologue(r deferred.__deferred_rule) IS 'what the functions begin with that evaluate a rule';

--
-- Name: __rule_remove(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_remove(name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    v_id bigint := (deferred.__rule_get($1, true)).id;
begin
    delete from deferred.__deferred_rule x where x.id = v_id;
end
$_$;

ALTER FUNCTION deferred.__rule_remove(name text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_remove(name text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_remove(name text) IS 'removes a rule; its jobs stay';

--
-- Name: __rule_room(double precision); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_room(jobs double precision) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '500ms'
    AS $$
declare
    v_made  integer := 0;
    v_width constant bigint := 10000000;
    v_last  bigint := (select last_value from deferred.__deferred_id_seq);
begin
    if not pg_try_advisory_xact_lock(hashtextextended('deferred.maintain', 0)) then return 0; end if;
    for i in v_last / v_width .. (v_last + least(greatest(jobs, 0), 1e9)::bigint + v_width / 2) / v_width loop
        if to_regclass(format('deferred.%I', '__deferred_' || i)) is null then
            perform deferred.__add_partition('__deferred', '__deferred_' || i, 'id', (i * v_width)::text, ((i + 1) * v_width)::text,
                v_last >= i * v_width - v_width / 100);
            v_made := v_made + 1;
        end if;
    end loop;
    return v_made;
exception when lock_not_available then
    return 0;
end
$$;

ALTER FUNCTION deferred.__rule_room(jobs double precision) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_room(jobs double precision); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_room(jobs double precision) IS 'adds the partitions that so many jobs need; returns how many';

--
-- Name: __rule_run(text, double precision, boolean); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_run(name text, estimate double precision, ticks boolean, OUT queued bigint, OUT skipped bigint, OUT failed bigint, OUT examples json) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET work_mem TO '64MB'
    AS $_$
#variable_conflict use_column
declare
    r         deferred.__deferred_rule := deferred.__rule_get($1, true);
    v_start   timestamptz := clock_timestamp();
    v_now     timestamptz := clock_timestamp();
    v_owner   name := (select x.rolname from pg_roles x where x.oid = r.owner);
    v_delay   bigint := deferred.__ms('delay', r.opts->>'delay');
    v_due     timestamptz := case when v_delay > 0 then v_now + v_delay * interval '1 millisecond' end;
    v_expires timestamptz := v_now + nullif(deferred.__ms('expires', r.opts->>'expires'), 0) * interval '1 millisecond';
    v_label   text := r.opts->>'label';
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
begin
    -- Who calls could have put anything there; what is run with the rights of this function's owner otherwise.
    if (select count(*) <> 1 or not bool_and(p.prosecdef and p.proowner = r.owner and p.pronargs = 0 and p.xmin = pg_current_xact_id()::xid)
        from pg_proc p where p.pronamespace = pg_my_temp_schema() and p.proname = '__deferred_rule_rows') then
        raise exception using errcode = '55000', message = format('rule %L was not opened in this transaction', r.name);
    end if;
    if not deferred.__rule_may_defer(v_owner, r.queue, r.fn) then
        raise exception using errcode = '42501', message = format('the owner of rule %L, or who runs it, may not defer %L to queue %L', r.name, r.fn, r.queue),
            hint = 'an administrator grants it by a row in deferred.__deferred_grant';
    end if;
    insert into deferred.__deferred_queue (name) values (r.queue) on conflict do nothing;
    update deferred.__deferred_queue q set limited_jobs = q.limited_jobs or v_limited, removed_at = null
    where q.name = r.queue and (q.removed_at is not null or (v_limited and not q.limited_jobs));
    select q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop' into v_max_bytes, v_ttl_ms, v_max_length, v_drop
    from deferred.__deferred_queue q where q.name = r.queue;
    v_expires := coalesce(v_expires, v_now + v_ttl_ms * interval '1 millisecond');
    v_room := v_max_length - deferred.__queue_length(r.queue, v_max_length);
    -- The planner takes __rule_fetch() to return its 10,000 rows always.
    if $2 > 20000 then perform set_config('enable_nestloop', 'off', true); end if;

    with src as materialized (
        select s.n, s.key, s.params, s.bad,
               case when s.bad is null and s.hot is null and (v_room is null or s.taken <= v_room) then nextval('deferred.__deferred_id_seq') end as id
        from (select t.n, t.key, t.params, t.hot, t.taken,
                     case when t.bad is null and t.hot is null and t.taken > v_room and not v_drop
                          then format('queue %L is full: it holds %s jobs', r.queue, v_max_length) else t.bad end as bad
              from (select row_number() over w as n, f.key, f.params, f.hot, f.bad,
                           count(*) filter (where v_room is not null and f.hot is null and f.bad is null) over (w rows unbounded preceding) as taken
                    from (select f.key, case when h.id is null then f.params end as params, h.id as hot,
                                 case when f.key is null then 'its key is NULL'
                                      when length(f.key) not between 1 and 1000
                                      then format('its key has %s characters, 1 to 1000 are taken', length(f.key))
                                      when octet_length(f.key) > 2500
                                      then format('its key has %s bytes, at most 2500 are taken', octet_length(f.key))
                                      when octet_length(f.params::text) > v_max_bytes
                                      then format('params have %s bytes, queue %L takes %s', octet_length(f.params::text), r.queue, v_max_bytes)
                                      when octet_length(f.params::text) > 512 and not deferred.__depth_ok(f.params)
                                      then 'params nest deeper than 512 levels' end as bad
                          from deferred.__rule_fetch() f
                          left join deferred.__deferred_hot h on h.queue = r.queue and h.key = f.key) f
                    window w as (order by f.key collate "C")) t) s),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, key, limited, bounded)
        select s.id, r.queue, r.fn, r.priority, v_due,
               case when ticks and s.n % 8192 = 0 then deferred.__rule_tick('queued', s.n, coalesce(v_due, v_now)) else coalesce(v_due, v_now) end,
               v_expires, s.key, v_limited, v_max_length is not null
        from src s where s.id is not null
        on conflict (queue, key) where key is not null do nothing
        returning id),
    job as (
        insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at, expires_at, max_attempts, timeout_ms,
            backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by)
        select s.id, r.queue, r.fn, s.params, v_label, s.key, r.priority, v_due, v_expires, v_max_attempts, v_timeout, v_floor, v_ceiling,
               v_exponent, case when ticks and s.n % 8192 = 0 then deferred.__rule_tick('stored', s.n, v_now) else v_now end, v_owner
        from hot h join src s on s.id = h.id
        returning 1)
    select (select count(*) from hot), (select count(*) from job), count(*), count(s.bad),
           (select coalesce(json_agg(json_build_object('key', left(e.key, 100), 'params', left(e.params::text, 200), 'error', e.bad)), '[]')
            from (select x.key, x.params, x.bad from src x where x.bad is not null limit 3) e)
    into queued, v_jobs, v_rows, failed, examples
    from src s;
    if v_jobs <> queued then
        raise exception using errcode = 'XX000', message = format('%s jobs were queued, %s stored', queued, v_jobs);
    end if;
    skipped := v_rows - queued - failed;
    update deferred.__deferred_rule x
    set last_run_at = v_start, last_run_ms = extract(epoch from clock_timestamp() - v_start) * 1000, last_run_by = deferred.__actor(),
        last_queued = queued, last_skipped = skipped, last_failed = failed, last_error = null
    where x.id = r.id;
end
$_$;

ALTER FUNCTION deferred.__rule_run(name text, estimate double precision, ticks boolean, OUT queued bigint, OUT skipped bigint, OUT failed bigint, OUT examples json) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_run(name text, estimate double precision, ticks boolean, OUT queued bigint, OUT skipped bigint, OUT failed bigint, OUT examples json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_run(name text, estimate double precision, ticks boolean, OUT queued bigint, OUT skipped bigint, OUT failed bigint, OUT examples json) IS 'makes jobs of the rows of the rule that __rule_open() took; ticks: tell how far it has come';

--
-- Name: __rule_tick(text, bigint, timestamp with time zone); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rule_tick(what text, n bigint, v timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    raise info using errcode = 'DR001', message = format('%s %s', what, n);
    return v;
end
$$;

ALTER FUNCTION deferred.__rule_tick(what text, n bigint, v timestamp with time zone) OWNER TO deferred_owner;

--
-- Name: FUNCTION __rule_tick(what text, n bigint, v timestamp with time zone); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rule_tick(what text, n bigint, v timestamp with time zone) IS 'tells the program how far a run has come; returns its last argument';

--
-- Name: __rules(); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__rules() RETURNS SETOF deferred.__deferred_rule
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select r.id, r.name, case when m.mine then r.query end, r.fn, case when m.mine then r.params end, r.key_column, r.queue, r.priority, r.opts,
           r.owner, r.search_path, r.statement_timeout_ms, r.created_at, r.last_run_at, r.last_run_ms, r.last_run_by, r.last_queued,
           r.last_skipped, r.last_failed, case when m.mine then r.last_error end
    from deferred.__deferred_rule r cross join lateral (select deferred.__rule_is_mine(r.owner) as mine) m
    where m.mine or pg_has_role(deferred.__actor(), 'deferred_viewer', 'member')
    order by r.name
$$;

ALTER FUNCTION deferred.__rules() OWNER TO deferred_owner;

--
-- Name: FUNCTION __rules(); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__rules() IS 'the rules one may run; for viewers all of them, without query, params and errors of those of others';

--
-- Name: __server_start(); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__server_start() RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    select greatest(pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time())
$$;

ALTER FUNCTION deferred.__server_start() OWNER TO deferred_owner;

--
-- Name: FUNCTION __server_start(); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__server_start() IS 'start of the server, or end of its last recovery from a crash: what was learnt of transaction ids before means nothing';

--
-- Name: __state(bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__state(id bigint) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    select j.state from deferred.job j where j.id = $1 and deferred.__may_touch(j.created_by::name)
$_$;

ALTER FUNCTION deferred.__state(id bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __state(id bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__state(id bigint) IS 'part of "deferred cancel": state of a job that one may cancel; NULL: no such job, or that of another role';

--
-- Name: __track_bury(text, bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__track_bury(p_group text, p_except bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    delete from deferred.__deferred_track t
    where t.worker in (
        select x.worker from deferred.__deferred_track x
        where x.group_name = p_group and x.worker <> p_except
          and (x.lease_until <= clock_timestamp()
               or not exists (select from deferred.__deferred_worker w where w.id = x.worker and w.ended_at is null))
        for update of x skip locked)
$$;

ALTER FUNCTION deferred.__track_bury(p_group text, p_except bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __track_bury(p_group text, p_except bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__track_bury(p_group text, p_except bigint) IS 'takes the tracks of dead workers out of a group';

--
-- Name: __track_move(bigint, text, integer, bigint, bigint, integer); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__track_move(p_worker bigint, p_group text, p_range integer, p_lease_ms bigint, p_round bigint, p_made integer, OUT live boolean, OUT round bigint, OUT steps integer, OUT made integer) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_lease interval := p_lease_ms * interval '1 millisecond';
    v_track deferred.__deferred_track;
begin
    live := false;
    if p_lease_ms = 0 then
        delete from deferred.__deferred_track t where t.worker = p_worker;
        return;
    end if;

    select * into v_track from deferred.__deferred_track t where t.worker = p_worker;
    if not found or v_track.group_name <> p_group or v_track.lease_until <= clock_timestamp() then
        -- Join, or join again.
        insert into deferred.__deferred_group (name, steps) select p_group, p_range
        where not exists (select from deferred.__deferred_group g where g.name = p_group) on conflict do nothing;
        perform from deferred.__deferred_group g where g.name = p_group for update skip locked;
        if not found then
            return;
        end if;
        perform deferred.__track_bury(p_group, p_worker);
        update deferred.__deferred_group g
        set steps = case when exists (select from deferred.__deferred_track t where t.group_name = p_group and t.worker <> p_worker)
                         then g.steps else p_range end
        where g.name = p_group
        returning g.round, g.steps into round, steps;
        made := case when p_round = round then least(p_made, steps) else 0 end;
        insert into deferred.__deferred_track as t (worker, group_name, range, since, round, made, lease_until)
        values (p_worker, p_group, p_range, round, round, made, clock_timestamp() + v_lease)
        on conflict (worker) do update
        set group_name = excluded.group_name, range = excluded.range, since = excluded.since, round = excluded.round,
            made = excluded.made, lease_until = excluded.lease_until;
        live := true;
        return;
    end if;

    select g.round, g.steps into round, steps from deferred.__deferred_group g where g.name = p_group;
    made := case when v_track.round = p_round then least(p_made, steps) else v_track.made end;
    if v_track.round < round then
        made := 0;
    elsif made >= steps and deferred.__track_round_over(p_group, p_worker, round) then
        select g.round, g.steps into round, steps from deferred.__deferred_group g where g.name = p_group;
        made := 0;
    end if;
    live := true;
    if v_track.round <> round or v_track.made <> made or v_track.range <> p_range
       or v_track.lease_until < clock_timestamp() + v_lease * (2.0 / 3) then
        update deferred.__deferred_track t
        set round = __track_move.round, made = __track_move.made, range = p_range, lease_until = clock_timestamp() + v_lease
        where t.worker = p_worker;
        live := found;  -- somebody took it for dead just now: join again
    end if;
end
$$;

ALTER FUNCTION deferred.__track_move(p_worker bigint, p_group text, p_range integer, p_lease_ms bigint, p_round bigint, p_made integer, OUT live boolean, OUT round bigint, OUT steps integer, OUT made integer) OWNER TO deferred_owner;

--
-- Name: FUNCTION __track_move(p_worker bigint, p_group text, p_range integer, p_lease_ms bigint, p_round bigint, p_made integer, OUT live boolean, OUT round bigint, OUT steps integer, OUT made integer); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__track_move(p_worker bigint, p_group text, p_range integer, p_lease_ms bigint, p_round bigint, p_made integer, OUT live boolean, OUT round bigint, OUT steps integer, OUT made integer) IS 'a worker of a group reports the steps it made, and learns how many it may make';

--
-- Name: __track_round_over(text, bigint, bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__track_round_over(p_group text, p_worker bigint, p_round bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    v_group deferred.__deferred_group;
begin
    if exists (select from deferred.__deferred_track t
               where t.group_name = p_group and t.worker <> p_worker and t.lease_until > clock_timestamp()
                 and (t.round < p_round
                      or t.made < (select g.steps from deferred.__deferred_group g where g.name = p_group and g.round = p_round))
                 and exists (select from deferred.__deferred_worker w where w.id = t.worker and w.ended_at is null)) then
        return false;
    end if;
    select * into v_group from deferred.__deferred_group g where g.name = p_group for update skip locked;
    if not found or v_group.round <> p_round then
        return found;
    end if;
    perform deferred.__track_bury(p_group, p_worker);
    if exists (select from deferred.__deferred_track t
               where t.group_name = p_group and t.worker <> p_worker and (t.round < p_round or t.made < v_group.steps)) then
        return false;
    end if;
    update deferred.__deferred_group g
    set round = g.round + 1,
        steps = (select min(t.range) from deferred.__deferred_track t where t.group_name = p_group)
    where g.name = p_group;
    return true;
end
$$;

ALTER FUNCTION deferred.__track_round_over(p_group text, p_worker bigint, p_round bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION __track_round_over(p_group text, p_worker bigint, p_round bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__track_round_over(p_group text, p_worker bigint, p_round bigint) IS 'begins the next round of a group when all live tracks made the steps of this one';

--
-- Name: __unawaited(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__unawaited(queue text) RETURNS boolean
    LANGUAGE sql
    AS $$
    select pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext('*'))
       and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext('*'))
       and pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext(queue))
       and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext(queue))
$$;

ALTER FUNCTION deferred.__unawaited(queue text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __unawaited(queue text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__unawaited(queue text) IS 'true: no worker that serves the queue waits to be told of a ready job; false: one does, or another session asked just then';

--
-- Name: __waits(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__waits(queue text) RETURNS boolean
    LANGUAGE sql
    AS $$
    select not (deferred.__unawaited(queue) or deferred.__unawaited(queue) or deferred.__unawaited(queue))
$$;

ALTER FUNCTION deferred.__waits(queue text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __waits(queue text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__waits(queue text) IS 'true: some worker that serves the queue is idle and waits to be told of a ready job';

--
-- Name: __wake(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.__wake(queue text) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    if deferred.__waits(queue) then
        perform pg_catalog.pg_notify('deferred', queue);
    end if;
end
$$;

ALTER FUNCTION deferred.__wake(queue text) OWNER TO deferred_owner;

--
-- Name: FUNCTION __wake(queue text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.__wake(queue text) IS 'tell idle workers, if any wait, that a queue has a ready job; after the job has been stored';

--
-- Name: cancel(bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.cancel(id bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    h deferred.__deferred_hot;
begin
    if not exists (select from deferred.__deferred d where d.id = $1 and deferred.__may_touch(d.created_by::name)) then
        return false;
    end if;
    delete from deferred.__deferred_hot x where x.id = $1 returning * into h;
    if not found then return false; end if;
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
    values (h.id, case when h.receipt is null then 0 else h.attempt end, 'cancelled', true,
            format('cancelled by %s', deferred.__actor()), h.started_at, h.worker, h.receipt);
    if h.receipt is not null then
        delete from deferred.__deferred_progress p where p.job_id = $1;
        if h.worker is not null then perform pg_notify('deferred', '!' || h.worker); end if;
    end if;
    return true;
end
$_$;

ALTER FUNCTION deferred.cancel(id bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION cancel(id bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.cancel(id bigint) IS 'take a job out of the queue, running or not; its worker asks a running attempt to stop, and kills it soon after. False: nothing to cancel';

--
-- Name: check_ledger(); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.check_ledger() RETURNS TABLE(invariant text, job_id bigint, detail text)
    LANGUAGE sql STABLE
    AS $_$
    select 'I1: a job is hot or has a final log row', d.id, 'neither hot nor finished'
    from deferred.__deferred d
    where not exists (select from deferred.__deferred_hot h where h.id = d.id)
      and not exists (select from deferred.__deferred_log l where l.job_id = d.id and l.final)
  union all
    select 'I1: a hot row has its job', h.id, 'no row in __deferred'
    from deferred.__deferred_hot h where not exists (select from deferred.__deferred d where d.id = h.id)
  union all
    select 'I2: at most one ok', l.job_id, format('%s ok rows', count(*))
    from deferred.__deferred_log l where l.outcome = 'ok' group by l.job_id having count(*) > 1
  union all
    select 'I3: attempts are numbered 1..n', l.job_id, format('%s rows, numbers up to %s', count(*), max(l.attempt))
    from deferred.__deferred_log l where l.attempt > 0
    group by l.job_id having count(*) <> max(l.attempt) or count(distinct l.attempt) <> count(*)
  union all
    select 'I3: only a claim is missing in the log', h.id, format('attempt %s, %s logged', h.attempt, count(l.attempt))
    from deferred.__deferred_hot h left join deferred.__deferred_log l on l.job_id = h.id and l.attempt > 0
    group by h.id, h.attempt, h.receipt
    having count(l.attempt) <> h.attempt - (h.receipt is not null)::integer
  union all
    select 'I6: no final row while hot', h.id, format('final row of attempt %s', l.attempt)
    from deferred.__deferred_hot h join deferred.__deferred_log l on l.job_id = h.id and l.final and l.attempt > h.attempt_base
  union all
    select 'I7: a hot row is delayed, ready or claimed', h.id, format('attempt %s of base %s, receipt %s, worker %s, due %s',
           h.attempt, h.attempt_base, h.receipt, h.worker, h.due_at)
    from deferred.__deferred_hot h
    where h.attempt < h.attempt_base or h.attempt_base < 0
       or case when h.fn is not null then (h.receipt is null) <> (h.worker is null) or (h.receipt is not null and h.due_at is not null)
               else h.worker is not null or h.due_at <> h.visible_at
                    or (h.receipt is not null and h.visible_at > clock_timestamp() and h.due_at is null) end
  union all
    select 'I8: a job is as deferred.defer() stores it', d.id, format('function %L, queue %L', d.fn, d.queue)
    from deferred.__deferred d
    where d.fn !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'
       or not deferred.__opts_ok(d.label, d.key, d.max_attempts, d.timeout_ms, d.backoff_floor_ms, d.backoff_ceiling_ms,
                                 d.backoff_exponent)
$_$;

ALTER FUNCTION deferred.check_ledger() OWNER TO deferred_owner;

--
-- Name: FUNCTION check_ledger(); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.check_ledger() IS 'violations of the promises kept between the tables: no rows when all is well. Reads everything; for tests and doubts';

--
-- Name: claim(text, integer, bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.claim(queue text, n integer DEFAULT 1, lease_ms bigint DEFAULT 30000) RETURNS TABLE(id bigint, receipt bigint, attempt integer, params json, created_at timestamp with time zone, expires_at timestamp with time zone, visible_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    if $2 is null or $2 not between 1 and 1000 or $3 is null or $3 not between 1 and 604800000 then
        raise exception using errcode = '22003', message = format('%s messages for %s ms are out of range', $2, $3),
            hint = 'take 1 to 1000 messages for 1 to 604800000 ms (7 days)';
    end if;
    if not exists (select from deferred.__deferred_queue q where q.name = $1 and q.removed_at is null) then
        raise exception using errcode = '42704', message = format('no queue %L', left($1, 200)),
            hint = 'a queue is added by the first job deferred to it, or by: deferred queue set NAME --create';
    end if;
    return query
    select m.id, m.receipt, m.attempt, m.params, m.inserted_at, m.expires_at, m.visible_at
    from deferred.__message_get(array[$1], array[$2], array[$3]) m where m.id is not null;
end
$_$;

ALTER FUNCTION deferred.claim(queue text, n integer, lease_ms bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION claim(queue text, n integer, lease_ms bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.claim(queue text, n integer, lease_ms bigint) IS 'take visible messages of a queue, which nobody else is given for so long; each is finished, extended or released by its id and receipt';

--
-- Name: defer(text, json, json, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.defer(fn text, params json DEFAULT '{}'::json, opts json DEFAULT NULL::json, queue text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_id    bigint;
    v_now   timestamptz;
    v_queue text;
begin
    if opts is not null then
        return deferred.__enqueue_opts(fn, params, opts, $4);
    end if;
    insert into deferred.__deferred_hot (id, queue, fn, visible_at)
    select nextval('deferred.__deferred_id_seq'), q.name, $1, clock_timestamp()
    from deferred.__deferred_queue q
    where q.name = coalesce($4, 'default') and q.simple and octet_length($2::text) <= 512
      and length($1) <= 127 and $1 collate "C" ~ '^[A-Za-z_][A-Za-z0-9_.]*$'
      and not exists (select from deferred.__deferred_grant)
      and not exists (select from deferred.__deferred_function f where f.name = $1)
    returning id, visible_at, queue into v_id, v_now, v_queue;
    if v_id is null then
        return deferred.__enqueue(fn, params, $4, null, null, null, null, null, null, null, null, null, null, null, null, null);
    end if;
    insert into deferred.__deferred (id, queue, fn, params, created_at, created_by)
    values (v_id, v_queue, $1, $2, v_now, deferred.__actor());
    if not deferred.__unawaited(v_queue) then
        perform deferred.__wake(v_queue);
    end if;
    return v_id;
end
$_$;

ALTER FUNCTION deferred.defer(fn text, params json, opts json, queue text) OWNER TO deferred_owner;

--
-- Name: FUNCTION defer(fn text, params json, opts json, queue text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.defer(fn text, params json, opts json, queue text) IS 'have fn run later with params; returns the job id';

--
-- Name: defer_many(json); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.defer_many(jobs json) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    bad record;
begin
    if json_typeof(jobs) is distinct from 'array' then
        raise exception using errcode = '22023', message = format('jobs are a JSON %s, not an array', coalesce(json_typeof(jobs), 'null')),
            hint = 'for example [{"fn": "noop"}, {"fn": "send_mail", "params": {}, "queue": "mail"}]';
    end if;
    select e.n, json_typeof(e.job) as kind into bad
    from json_array_elements(jobs) with ordinality as e(job, n) where json_typeof(e.job) <> 'object' limit 1;
    if found then
        raise exception using errcode = '22023', message = format('job %s is a JSON %s, not an object', bad.n, bad.kind);
    end if;
    select e.n, k.name into bad
    from json_array_elements(jobs) with ordinality as e(job, n), json_object_keys(e.job) as k(name)
    where k.name not in ('fn', 'params', 'queue', 'label', 'priority', 'delay', 'run_at', 'expires', 'expires_at', 'key',
        'on_duplicate', 'max_attempts', 'timeout', 'backoff_floor', 'backoff_ceiling', 'backoff_exponent',
        'concurrency_key', 'concurrency')
    limit 1;
    if found then
        raise exception using errcode = '22023', message = format('job %s: unknown option "%s"', bad.n, left(bad.name, 200)),
            hint = 'beside fn and params: queue, label, priority, delay, run_at, expires, expires_at, key, on_duplicate, max_attempts, timeout, '
                   'backoff_floor, backoff_ceiling, backoff_exponent, concurrency_key, concurrency';
    end if;
    -- One look at each job; params by "->", which keeps them byte for byte. Sorted once, not by each array. An option that no job
    -- has is no array: one of NULLs costs half a microsecond a job.
    return query select m.* from (
        select array_agg(j.fn) as fn, array_agg(coalesce(j.call_params, '{}')) as params,
               case when count(j.queue) > 0 then array_agg(j.queue) end as queue,
               case when count(j.label) > 0 then array_agg(j.label) end as label,
               case when count(j.priority) > 0 then array_agg(j.priority) end as priority,
               case when count(j.delay) > 0 then array_agg(deferred.__ms('delay', j.delay)) end as delay_ms,
               case when count(j.run_at) > 0 then array_agg(j.run_at) end as run_at,
               case when count(j.expires) > 0 then array_agg(deferred.__ms('expires', j.expires)) end as expires_ms,
               case when count(j.expires_at) > 0 then array_agg(j.expires_at) end as expires_at,
               case when count(j.key) > 0 then array_agg(j.key) end as key,
               case when count(j.on_duplicate) > 0 then array_agg(j.on_duplicate) end as on_duplicate,
               case when count(j.max_attempts) > 0 then array_agg(j.max_attempts) end as max_attempts,
               case when count(j.timeout) > 0 then array_agg(deferred.__ms('timeout', j.timeout)) end as timeout_ms,
               case when count(j.backoff_floor) > 0 then array_agg(deferred.__ms('backoff_floor', j.backoff_floor)) end as backoff_floor_ms,
               case when count(j.backoff_ceiling) > 0 then array_agg(deferred.__ms('backoff_ceiling', j.backoff_ceiling)) end as backoff_ceiling_ms,
               case when count(j.backoff_exponent) > 0 then array_agg(j.backoff_exponent) end as backoff_exponent,
               case when count(j.concurrency_key) > 0 then array_agg(j.concurrency_key) end as concurrency_key,
               case when count(j.concurrency) > 0 then array_agg(j.concurrency) end as concurrency
        from (
            select e.job->'params' as call_params, r.*
            from json_array_elements(jobs) with ordinality as e(job, n)
            cross join lateral json_to_record(e.job) as r(fn text, queue text, label text, priority integer, delay text, run_at timestamptz,
                expires text, expires_at timestamptz, key text, on_duplicate text, max_attempts integer, timeout text,
                backoff_floor text, backoff_ceiling text, backoff_exponent double precision,
                concurrency_key text, concurrency integer)
            order by e.n) j) a
    cross join lateral deferred.__enqueue_many(a.fn, a.params, a.queue, a.label, a.priority, a.delay_ms, a.run_at, a.expires_ms,
        a.expires_at, a.key, a.on_duplicate, a.max_attempts, a.timeout_ms, a.backoff_floor_ms, a.backoff_ceiling_ms, a.backoff_exponent,
        a.concurrency_key, a.concurrency) m;
end
$$;

ALTER FUNCTION deferred.defer_many(jobs json) OWNER TO deferred_owner;

--
-- Name: FUNCTION defer_many(jobs json); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.defer_many(jobs json) IS 'defer a JSON array of {"fn", "params", options}; returns the job ids in its order';

--
-- Name: extend(bigint, bigint, bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.extend(id bigint, receipt bigint, lease_ms bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    v_end timestamptz;
begin
    if $3 is null or $3 not between 1 and 604800000 then
        raise exception using errcode = '22003', message = format('lease of %s ms is out of range', coalesce($3::text, 'NULL')),
            hint = 'use 1 to 604800000 (7 days)';
    end if;
    v_end := clock_timestamp() + $3 * interval '1 millisecond';
    -- To the tail of its lane, as a renewal does: see job_renew.sql. A message that a consumer holds is hidden by due_at too.
    update deferred.__deferred_hot x
    set visible_at = greatest(x.visible_at, v_end), xid = pg_current_xact_id(),
        due_at = case when x.due_at is not null then greatest(x.visible_at, v_end) end
    where x.id = $1 and x.receipt = $2 and x.visible_at > clock_timestamp()
    returning x.visible_at into v_end;
    if not found then
        perform deferred.__refuse_receipt($1, $2);
    end if;
    return v_end;
end
$_$;

ALTER FUNCTION deferred.extend(id bigint, receipt bigint, lease_ms bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION extend(id bigint, receipt bigint, lease_ms bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.extend(id bigint, receipt bigint, lease_ms bigint) IS 'have the lease of the claim with this receipt last so long from now at least; returns its end. Raises 55000 where the receipt is not valid any more';

--
-- Name: finish(bigint, bigint, text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.finish(id bigint, receipt bigint, result text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
declare
    h deferred.__deferred_hot;
begin
    if octet_length($3) > 8192 then
        raise exception using errcode = '22001',
            message = format('the result of job %s has %s bytes, at most 8192 are kept', $1, octet_length($3)),
            hint = 'store it elsewhere and hand in a reference';
    end if;
    delete from deferred.__deferred_hot x
    where x.id = $1 and x.receipt = $2 and x.visible_at > clock_timestamp()
    returning * into h;
    if not found then
        perform deferred.__refuse_receipt($1, $2);
    end if;
    delete from deferred.__deferred_progress p where p.job_id = $1;
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, worker, receipt, run_us, result)
    values (h.id, h.attempt, 'ok', true, h.started_at, h.worker, h.receipt,
            (extract(epoch from clock_timestamp() - h.started_at) * 1000000)::bigint, $3);
end
$_$;

ALTER FUNCTION deferred.finish(id bigint, receipt bigint, result text) OWNER TO deferred_owner;

--
-- Name: FUNCTION finish(id bigint, receipt bigint, result text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.finish(id bigint, receipt bigint, result text) IS 'record the attempt that holds this receipt as ok, in the transaction of the caller: what else it writes and the success commit together. Raises 55000 where the receipt is not valid any more';

--
-- Name: maintain(); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.maintain() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '500ms'
    AS $$
declare
    v_made  integer := 0;
    v_week  date;
    v_last  bigint;
    v_lo    bigint;
    v_width constant bigint := 10000000;
    v_utc   constant text := 'UTC';
begin
    perform deferred.__forget_keys(1000);
    -- The common case costs two catalog look-ups and takes no lock.
    if to_regclass(format('deferred.%I', '__deferred_log_' || to_char(date_trunc('week', now() at time zone v_utc) + interval '3 weeks', 'YYYYMMDD'))) is not null then
        select last_value into v_last from deferred.__deferred_id_seq;
        if to_regclass(format('deferred.%I', '__deferred_' || ((v_last + v_width / 2) / v_width))) is not null then
            return 0;
        end if;
    end if;
    if not pg_try_advisory_xact_lock(hashtextextended('deferred.maintain', 0)) then return 0; end if;

    for i in 0..4 loop  -- a month ahead: a week without maintenance leaves no gap
        v_week := (date_trunc('week', now() at time zone v_utc) + i * interval '1 week')::date;
        if to_regclass(format('deferred.%I', '__deferred_log_' || to_char(v_week, 'YYYYMMDD'))) is null then
            perform deferred.__add_partition('__deferred_log', '__deferred_log_' || to_char(v_week, 'YYYYMMDD'), 'finished_at',
                v_week || ' 00:00:00+00', (v_week + 7) || ' 00:00:00+00', v_week < (now() + interval '1 hour') at time zone v_utc);
            v_made := v_made + 1;
        end if;
    end loop;

    select last_value into v_last from deferred.__deferred_id_seq;
    for i in v_last / v_width .. (v_last + v_width / 2) / v_width loop
        if to_regclass(format('deferred.%I', '__deferred_' || i)) is null then
            v_lo := i * v_width;
            perform deferred.__add_partition('__deferred', '__deferred_' || i, 'id', v_lo::text, (v_lo + v_width)::text,
                v_last >= v_lo - v_width / 100);
            v_made := v_made + 1;
        end if;
    end loop;
    return v_made;
exception when lock_not_available then
    return 0;  -- somebody reads for long: the next call does it, weeks before it matters
end
$$;

ALTER FUNCTION deferred.maintain() OWNER TO deferred_owner;

--
-- Name: FUNCTION maintain(); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.maintain() IS 'adds the partitions the next weeks need; returns how many; cheap to call often';

--
-- Name: release(bigint, bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.release(id bigint, receipt bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
begin
    update deferred.__deferred_hot h
    set receipt = null, put_receipt = null, started_at = null, attempt = h.attempt - 1, due_at = null, visible_at = clock_timestamp(),
        xid = pg_current_xact_id()
    where h.id = $1 and h.receipt = $2 and h.worker is null;
    if not found then
        raise exception using errcode = '55000', message = format('the receipt is not that of the present claim of job %s', $1),
            hint = 'it was finished, cancelled, or taken by somebody else since';
    end if;
end
$_$;

ALTER FUNCTION deferred.release(id bigint, receipt bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION release(id bigint, receipt bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.release(id bigint, receipt bigint) IS 'give back a claimed message at once, as if it had not been taken. Raises 55000 where the receipt is not valid any more';

--
-- Name: retry(bigint); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.retry(id bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
    h deferred.__deferred_hot;
    d deferred.__deferred;
    v_outcome text;
    v_attempt integer;
begin
    select * into d from deferred.__deferred x where x.id = $1;
    if not found or not deferred.__may_touch(d.created_by::name) then return false; end if;
    select * into h from deferred.__deferred_hot x where x.id = $1 for update;
    if found then
        if h.receipt is not null then
            if h.visible_at > clock_timestamp() then
                raise exception using errcode = '55006', message = format('job %s is being run', $1),
                    hint = 'wait for its outcome, or cancel it first';
            end if;
            return true;  -- its lease has ended: the next claim takes it
        end if;
        update deferred.__deferred_hot x set due_at = null, visible_at = clock_timestamp(), xid = pg_current_xact_id()
        where x.id = $1 and x.due_at is not null;
        perform deferred.__wake(h.queue);
        return true;
    end if;
    -- Written, so that of two who retry it at once the second sees what became of the first, or fails if its snapshot is older.
    update deferred.__deferred x set label = x.label where x.id = $1;
    if exists (select from deferred.__deferred_hot x where x.id = $1) then return true; end if;
    select l.outcome into v_outcome from deferred.__deferred_log l where l.job_id = $1 and l.final
    order by l.finished_at desc, l.attempt desc limit 1;
    if v_outcome = 'ok' then
        raise exception using errcode = '55000', message = format('job %s is done', $1),
            hint = 'defer the call again to have it run once more';
    elsif v_outcome is null then
        raise exception using errcode = '55000', message = format('job %s ended so long ago that its attempts were purged', $1),
            hint = 'defer the call again';
    end if;
    select coalesce(max(l.attempt), 0) into v_attempt from deferred.__deferred_log l where l.job_id = $1;
    insert into deferred.__deferred_hot (id, queue, fn, priority, visible_at, attempt, attempt_base, key, limited, bounded,
        concurrency_key, concurrency)
    values (d.id, d.queue, d.fn, d.priority, clock_timestamp(), v_attempt, v_attempt, d.key,
        deferred.__is_limited(d.queue, d.fn, d.concurrency_key),
        exists (select from deferred.__deferred_queue q where q.name = d.queue and q.max_length is not null), d.concurrency_key,
        d.concurrency)
    on conflict on constraint __deferred_hot_pkey do nothing;
    update deferred.__deferred_queue q set limited_jobs = q.limited_jobs or x.limited, removed_at = null
    from deferred.__deferred_hot x
    where x.id = $1 and q.name = x.queue and (q.removed_at is not null or (x.limited and not q.limited_jobs));
    perform deferred.__wake(d.queue);
    return true;
exception when unique_violation then
    raise exception using errcode = '23505', message = format('job %s has key %L, which a newer job has too', $1, d.key),
        hint = 'cancel the newer job, or defer the call again';
end
$_$;

ALTER FUNCTION deferred.retry(id bigint) OWNER TO deferred_owner;

--
-- Name: FUNCTION retry(id bigint); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.retry(id bigint) IS 'have a dead, cancelled, expired or delayed job run now, with all its attempts again. False: no such job';

--
-- Name: state(text); Type: FUNCTION; Schema: deferred; Owner: deferred_owner
--

CREATE FUNCTION deferred.state(outcome text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    select case outcome when 'ok' then 'done' when 'cancelled' then 'cancelled' when 'expired' then 'expired' else 'dead' end
$$;

ALTER FUNCTION deferred.state(outcome text) OWNER TO deferred_owner;

--
-- Name: FUNCTION state(outcome text); Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON FUNCTION deferred.state(outcome text) IS 'state of a job whose last attempt ended finally with this outcome';

--
-- Name: __deferred; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred (
    id bigint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    fn text COLLATE pg_catalog."C",
    params json NOT NULL,
    label text,
    key text COLLATE pg_catalog."C",
    priority smallint DEFAULT 0 NOT NULL,
    run_at timestamp with time zone,
    expires_at timestamp with time zone,
    max_attempts integer,
    timeout_ms bigint,
    backoff_floor_ms bigint,
    backoff_ceiling_ms bigint,
    backoff_exponent double precision,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_by text DEFAULT SESSION_USER NOT NULL COLLATE pg_catalog."C",
    concurrency_key text COLLATE pg_catalog."C",
    concurrency integer
)
PARTITION BY RANGE (id);

ALTER TABLE deferred.__deferred OWNER TO deferred_owner;

--
-- Name: TABLE __deferred; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred IS 'the calls as they were deferred; rows are added and, long after, purged, never changed but for the params of a message its holder replaces, and for the lock of deferred.retry()';

--
-- Name: COLUMN __deferred.id; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.id IS 'job id';

--
-- Name: COLUMN __deferred.queue; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.queue IS 'queue it was deferred to';

--
-- Name: COLUMN __deferred.fn; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.fn IS 'function to call, 1 to 127 characters; NULL: a plain message for a consumer';

--
-- Name: COLUMN __deferred.params; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.params IS 'argument of the call, kept byte for byte';

--
-- Name: COLUMN __deferred.label; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.label IS 'text for people, at most 1000 characters';

--
-- Name: COLUMN __deferred.key; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.key IS 'at most one hot job of a queue has this key; 1 to 1000 characters, at most 2500 bytes';

--
-- Name: COLUMN __deferred.priority; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.priority IS 'larger is taken earlier';

--
-- Name: COLUMN __deferred.run_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.run_at IS 'not to be run before; NULL: at once';

--
-- Name: COLUMN __deferred.expires_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.expires_at IS 'not to be started after; NULL: never expires';

--
-- Name: COLUMN __deferred.max_attempts; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.max_attempts IS 'attempts before the job is dead; NULL: default of the function or the worker';

--
-- Name: COLUMN __deferred.timeout_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.timeout_ms IS 'limit of one attempt, milliseconds; NULL: default of the function or the worker';

--
-- Name: COLUMN __deferred.backoff_floor_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.backoff_floor_ms IS 'delay after the first failed attempt, milliseconds; NULL: default of the worker';

--
-- Name: COLUMN __deferred.backoff_ceiling_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.backoff_ceiling_ms IS 'longest delay, milliseconds; NULL: default of the worker';

--
-- Name: COLUMN __deferred.backoff_exponent; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.backoff_exponent IS 'factor from one delay to the next, 1 to 100; NULL: default of the worker';

--
-- Name: COLUMN __deferred.created_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.created_at IS 'when it was deferred (database clock)';

--
-- Name: COLUMN __deferred.created_by; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.created_by IS 'login role, or role taken by SET ROLE, that deferred it';

--
-- Name: COLUMN __deferred.concurrency_key; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.concurrency_key IS 'of all hot jobs of the queue with this key at most so many run at once; 1 to 1000 characters';

--
-- Name: COLUMN __deferred.concurrency; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred.concurrency IS 'how many, 1 to 10000; NULL: 1, and then strictly one after the other in the order of their ids';

--
-- Name: __deferred_cursor; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_cursor (
    queue text NOT NULL COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    xid xid8 NOT NULL,
    id bigint NOT NULL,
    holes xid8[] NOT NULL,
    server timestamp with time zone NOT NULL,
    learnt_at timestamp with time zone NOT NULL
);

ALTER TABLE deferred.__deferred_cursor OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_cursor; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_cursor IS 'where the ready jobs begin, as a run of check_deferred found whose start was slow; nothing is lost with a row';

--
-- Name: COLUMN __deferred_cursor.queue; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_cursor.queue IS 'queue';

--
-- Name: COLUMN __deferred_cursor.priority; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_cursor.priority IS 'priority: each one of a queue has a beginning of its own';

--
-- Name: COLUMN __deferred_cursor.xid; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_cursor.xid IS 'no job that this or a later run could find had an earlier (xid, id), but those of holes';

--
-- Name: COLUMN __deferred_cursor.id; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_cursor.id IS 'see xid';

--
-- Name: COLUMN __deferred_cursor.holes; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_cursor.holes IS 'transactions that were in progress, or have left jobs behind';

--
-- Name: COLUMN __deferred_cursor.server; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_cursor.server IS 'start of the server it was learnt from: for another one it means nothing';

--
-- Name: COLUMN __deferred_cursor.learnt_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_cursor.learnt_at IS 'when all was read last; after 5 minutes it is read again';

--
-- Name: __deferred_default; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_default (
    id bigint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    fn text COLLATE pg_catalog."C",
    params json NOT NULL,
    label text,
    key text COLLATE pg_catalog."C",
    priority smallint DEFAULT 0 NOT NULL,
    run_at timestamp with time zone,
    expires_at timestamp with time zone,
    max_attempts integer,
    timeout_ms bigint,
    backoff_floor_ms bigint,
    backoff_ceiling_ms bigint,
    backoff_exponent double precision,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_by text DEFAULT SESSION_USER NOT NULL COLLATE pg_catalog."C",
    concurrency_key text COLLATE pg_catalog."C",
    concurrency integer
);

ALTER TABLE deferred.__deferred_default OWNER TO deferred_owner;

--
-- Name: __deferred_function; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_function (
    name text NOT NULL COLLATE pg_catalog."C",
    max_running integer,
    rate double precision,
    burst integer,
    CONSTRAINT __deferred_function_burst_check CHECK (((burst >= 1) AND (burst <= 1000000))),
    CONSTRAINT __deferred_function_check CHECK ((COALESCE((max_running)::double precision, rate) IS NOT NULL)),
    CONSTRAINT __deferred_function_max_running_check CHECK ((max_running > 0)),
    CONSTRAINT __deferred_function_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'::text)),
    CONSTRAINT __deferred_function_rate_check CHECK (((rate >= (0.0000001)::double precision) AND (rate <= ('1000000'::numeric)::double precision)))
);

ALTER TABLE deferred.__deferred_function OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_function; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_function IS 'functions that have a limit, in whatever queue; one without has no row';

--
-- Name: COLUMN __deferred_function.name; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_function.name IS 'name of the function';

--
-- Name: COLUMN __deferred_function.max_running; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_function.max_running IS 'attempts at once, all workers together; NULL: no limit';

--
-- Name: COLUMN __deferred_function.rate; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_function.rate IS 'attempts a second, all workers together; NULL: no limit';

--
-- Name: COLUMN __deferred_function.burst; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_function.burst IS 'attempts that may start at once after a pause, where there is a rate; NULL: 1';

--
-- Name: __deferred_grant; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_grant (
    role name NOT NULL,
    queue text COLLATE pg_catalog."C",
    fn text COLLATE pg_catalog."C"
);

ALTER TABLE deferred.__deferred_grant OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_grant; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_grant IS 'optional limits for producers: a role named here may defer only what its rows allow; a role not named may defer anything';

--
-- Name: COLUMN __deferred_grant.role; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_grant.role IS 'login role, or role taken by SET ROLE; the rows of both count, so that SET ROLE does not lift a limit';

--
-- Name: COLUMN __deferred_grant.queue; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_grant.queue IS 'queue allowed; NULL: any';

--
-- Name: COLUMN __deferred_grant.fn; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_grant.fn IS 'function allowed; NULL: any';

--
-- Name: __deferred_group; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_group (
    name text NOT NULL,
    round bigint DEFAULT 0 NOT NULL,
    steps integer NOT NULL,
    CONSTRAINT __deferred_group_name_check CHECK ((name ~ '^[A-Za-z0-9_.-]{1,63}$'::text)),
    CONSTRAINT __deferred_group_round_check CHECK ((round >= 0)),
    CONSTRAINT __deferred_group_steps_check CHECK ((steps >= 1))
)
WITH (fillfactor='50', autovacuum_vacuum_cost_delay='0');

ALTER TABLE deferred.__deferred_group OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_group; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_group IS 'groups of workers that are kept level, made by the first worker that names one';

--
-- Name: COLUMN __deferred_group.name; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_group.name IS 'name of the group';

--
-- Name: COLUMN __deferred_group.round; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_group.round IS 'round under way: each live track may make so many steps in it';

--
-- Name: COLUMN __deferred_group.steps; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_group.steps IS 'steps of that round: the smallest range of the tracks that were live when it began';

--
-- Name: __deferred_hot; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_hot (
    id bigint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    fn text COLLATE pg_catalog."C",
    priority smallint DEFAULT 0 NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    due_at timestamp with time zone,
    visible_at timestamp with time zone NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    attempt_base integer DEFAULT 0 NOT NULL,
    receipt bigint,
    worker bigint,
    started_at timestamp with time zone,
    expires_at timestamp with time zone,
    key text COLLATE pg_catalog."C",
    limited boolean DEFAULT false NOT NULL,
    bounded boolean DEFAULT false NOT NULL,
    concurrency_key text COLLATE pg_catalog."C",
    concurrency integer,
    put_receipt bigint
)
WITH (fillfactor='40', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='2000', autovacuum_analyze_scale_factor='0.1', autovacuum_vacuum_cost_delay='0');

ALTER TABLE deferred.__deferred_hot OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_hot; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_hot IS 'jobs still to be run; the row goes when there is nothing more to do';

--
-- Name: COLUMN __deferred_hot.id; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.id IS 'job id, as in __deferred';

--
-- Name: COLUMN __deferred_hot.queue; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.queue IS 'copied from __deferred';

--
-- Name: COLUMN __deferred_hot.fn; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.fn IS 'copied from __deferred';

--
-- Name: COLUMN __deferred_hot.priority; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.priority IS 'copied from __deferred';

--
-- Name: COLUMN __deferred_hot.xid; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.xid IS 'arrival position: the transaction that made the row ready';

--
-- Name: COLUMN __deferred_hot.due_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.due_at IS 'delayed until, for a message also hidden until; NULL: ready, or a call that is claimed';

--
-- Name: COLUMN __deferred_hot.visible_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.visible_at IS 'ready since, or while claimed the end of the lease, or while delayed = due_at';

--
-- Name: COLUMN __deferred_hot.attempt; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.attempt IS 'attempts made so far, the one in progress included';

--
-- Name: COLUMN __deferred_hot.attempt_base; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.attempt_base IS 'attempts made before the last retry by hand; they do not count against the limit';

--
-- Name: COLUMN __deferred_hot.receipt; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.receipt IS 'token of the claim, random; NULL: not claimed';

--
-- Name: COLUMN __deferred_hot.worker; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.worker IS 'worker that holds the claim; NULL with a receipt: a consumer holds it';

--
-- Name: COLUMN __deferred_hot.started_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.started_at IS 'when it was claimed';

--
-- Name: COLUMN __deferred_hot.expires_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.expires_at IS 'copied from __deferred';

--
-- Name: COLUMN __deferred_hot.key; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.key IS 'copied from __deferred';

--
-- Name: COLUMN __deferred_hot.limited; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.limited IS 'true: claimed by deferred.__claim_limited() only';

--
-- Name: COLUMN __deferred_hot.bounded; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.bounded IS 'true: counts for max_length of its queue';

--
-- Name: COLUMN __deferred_hot.concurrency_key; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.concurrency_key IS 'copied from __deferred';

--
-- Name: COLUMN __deferred_hot.concurrency; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.concurrency IS 'copied from __deferred';

--
-- Name: COLUMN __deferred_hot.put_receipt; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_hot.put_receipt IS 'token that a message was put with; good while it was never taken (attempt 0, no receipt)';

--
-- Name: __deferred_id_seq; Type: SEQUENCE; Schema: deferred; Owner: deferred_owner
--

CREATE SEQUENCE deferred.__deferred_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER TABLE deferred.__deferred_id_seq OWNER TO deferred_owner;

--
-- Name: __deferred_limit; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_limit (
    kind text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    running bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    tokens double precision,
    tokens_at timestamp with time zone,
    used_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT __deferred_limit_kind_check CHECK ((kind = ANY (ARRAY['queue'::text, 'function'::text, 'key'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

ALTER TABLE deferred.__deferred_limit OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_limit; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_limit IS 'where limits stand; a row is locked by the claim that uses it and made by the first one';

--
-- Name: COLUMN __deferred_limit.kind; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_limit.kind IS 'what is limited: a queue, a function or a concurrency key';

--
-- Name: COLUMN __deferred_limit.queue; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_limit.queue IS 'the queue, or that of the key; empty for a function';

--
-- Name: COLUMN __deferred_limit.name; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_limit.name IS 'the function, or the hash of the key; empty for a queue';

--
-- Name: COLUMN __deferred_limit.running; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_limit.running IS 'ids of jobs that may be running; one counts while its hot row is claimed and the lease runs';

--
-- Name: COLUMN __deferred_limit.tokens; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_limit.tokens IS 'attempts that might have started at tokens_at; NULL: as many as burst says';

--
-- Name: COLUMN __deferred_limit.tokens_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_limit.tokens_at IS 'when tokens was counted (database clock)';

--
-- Name: COLUMN __deferred_limit.used_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_limit.used_at IS 'last claim, or last look by deferred.maintain(), which removes rows of keys no hot job has';

--
-- Name: __deferred_log; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_log (
    job_id bigint NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL COLLATE pg_catalog."C",
    final boolean NOT NULL,
    error text,
    exit_code integer,
    signal integer,
    started_at timestamp with time zone,
    finished_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    worker bigint,
    receipt bigint,
    plugin text,
    wait_us bigint,
    run_us bigint,
    user_us bigint,
    sys_us bigint,
    max_rss_kb bigint,
    result text,
    CONSTRAINT __deferred_log_outcome_check CHECK ((outcome = ANY (ARRAY['ok'::text, 'failed'::text, 'crashed'::text, 'timeout'::text, 'interrupted'::text, 'superseded'::text, 'lost'::text, 'cancelled'::text, 'expired'::text])))
)
PARTITION BY RANGE (finished_at);

ALTER TABLE deferred.__deferred_log OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_log; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_log IS 'one row an attempt; rows are added and, long after, purged, never changed';

--
-- Name: COLUMN __deferred_log.job_id; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.job_id IS 'id of the job';

--
-- Name: COLUMN __deferred_log.attempt; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.attempt IS 'number of the attempt from 1; 0: the job ended while nobody ran it';

--
-- Name: COLUMN __deferred_log.outcome; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.outcome IS 'how the attempt ended';

--
-- Name: COLUMN __deferred_log.final; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.final IS 'true: the job left __deferred_hot with this row';

--
-- Name: COLUMN __deferred_log.error; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.error IS 'what went wrong, for people';

--
-- Name: COLUMN __deferred_log.exit_code; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.exit_code IS 'exit status, where a process ended by itself';

--
-- Name: COLUMN __deferred_log.signal; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.signal IS 'signal that ended the process';

--
-- Name: COLUMN __deferred_log.started_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.started_at IS 'start of the attempt (database clock)';

--
-- Name: COLUMN __deferred_log.finished_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.finished_at IS 'end of the attempt (database clock)';

--
-- Name: COLUMN __deferred_log.worker; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.worker IS 'worker that made the attempt: __deferred_worker.id; NULL: a consumer';

--
-- Name: COLUMN __deferred_log.receipt; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.receipt IS 'receipt of the claim, by which a worker that lost the answer finds its own row';

--
-- Name: COLUMN __deferred_log.plugin; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.plugin IS 'plugin, version and build that ran it';

--
-- Name: COLUMN __deferred_log.wait_us; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.wait_us IS 'from ready to started, microseconds';

--
-- Name: COLUMN __deferred_log.run_us; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.run_us IS 'from started to finished, microseconds';

--
-- Name: COLUMN __deferred_log.user_us; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.user_us IS 'CPU time in user mode, microseconds';

--
-- Name: COLUMN __deferred_log.sys_us; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.sys_us IS 'CPU time in the kernel, microseconds';

--
-- Name: COLUMN __deferred_log.max_rss_kb; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.max_rss_kb IS 'largest resident memory of the process so far, KiB';

--
-- Name: COLUMN __deferred_log.result; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_log.result IS 'text handed back by the function, at most 8 KiB';

--
-- Name: __deferred_log_default; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_log_default (
    job_id bigint NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL COLLATE pg_catalog."C",
    final boolean NOT NULL,
    error text,
    exit_code integer,
    signal integer,
    started_at timestamp with time zone,
    finished_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    worker bigint,
    receipt bigint,
    plugin text,
    wait_us bigint,
    run_us bigint,
    user_us bigint,
    sys_us bigint,
    max_rss_kb bigint,
    result text,
    CONSTRAINT __deferred_log_outcome_check CHECK ((outcome = ANY (ARRAY['ok'::text, 'failed'::text, 'crashed'::text, 'timeout'::text, 'interrupted'::text, 'superseded'::text, 'lost'::text, 'cancelled'::text, 'expired'::text])))
);

ALTER TABLE deferred.__deferred_log_default OWNER TO deferred_owner;

--
-- Name: __deferred_migration; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_migration (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    applied_by name DEFAULT SESSION_USER NOT NULL
);

ALTER TABLE deferred.__deferred_migration OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_migration; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_migration IS 'schema steps applied, one row each';

--
-- Name: COLUMN __deferred_migration.version; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_migration.version IS 'number of the step; the highest is the schema version';

--
-- Name: COLUMN __deferred_migration.name; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_migration.name IS 'what the step does, from its file name';

--
-- Name: COLUMN __deferred_migration.applied_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_migration.applied_at IS 'when it was applied (database clock)';

--
-- Name: COLUMN __deferred_migration.applied_by; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_migration.applied_by IS 'role that applied it';

--
-- Name: __deferred_progress; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_progress (
    job_id bigint NOT NULL,
    attempt integer NOT NULL,
    done bigint,
    total bigint,
    text text,
    reported_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_cost_delay='0');

ALTER TABLE deferred.__deferred_progress OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_progress; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_progress IS 'how far attempts in progress are, for those functions that say so; of use only while a hot row with that attempt is claimed';

--
-- Name: COLUMN __deferred_progress.job_id; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_progress.job_id IS 'id of the job';

--
-- Name: COLUMN __deferred_progress.attempt; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_progress.attempt IS 'number of the attempt that reported';

--
-- Name: COLUMN __deferred_progress.done; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_progress.done IS 'so much is done, in units of the function; NULL: not told';

--
-- Name: COLUMN __deferred_progress.total; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_progress.total IS 'so much is to be done in all; NULL: not known';

--
-- Name: COLUMN __deferred_progress.text; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_progress.text IS 'what it is at, for people';

--
-- Name: COLUMN __deferred_progress.reported_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_progress.reported_at IS 'when the function said so (database clock)';

--
-- Name: __deferred_queue; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_queue (
    name text NOT NULL COLLATE pg_catalog."C",
    paused boolean DEFAULT false NOT NULL,
    params_max_bytes integer DEFAULT 1048576 NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    visibility_timeout_ms bigint,
    ttl_ms bigint,
    max_attempts integer,
    backoff_floor_ms bigint,
    backoff_ceiling_ms bigint,
    backoff_exponent double precision,
    max_running integer,
    rate double precision,
    burst integer,
    max_length integer,
    on_full text DEFAULT 'error'::text NOT NULL COLLATE pg_catalog."C",
    fn text COLLATE pg_catalog."C",
    metadata json,
    weight double precision DEFAULT 1 NOT NULL,
    limited_jobs boolean DEFAULT false NOT NULL,
    removed_at timestamp with time zone,
    max_dequeue integer,
    acl json,
    clearing_to bigint,
    simple boolean GENERATED ALWAYS AS (((num_nonnulls(ttl_ms, max_length, max_running, rate, removed_at) = 0) AND (params_max_bytes >= 512))) STORED NOT NULL,
    CONSTRAINT __deferred_queue_backoff_ceiling_ms_check CHECK ((backoff_ceiling_ms > 0)),
    CONSTRAINT __deferred_queue_backoff_exponent_check CHECK (((backoff_exponent >= (1)::double precision) AND (backoff_exponent <= (100)::double precision))),
    CONSTRAINT __deferred_queue_backoff_floor_ms_check CHECK ((backoff_floor_ms > 0)),
    CONSTRAINT __deferred_queue_burst_check CHECK (((burst >= 1) AND (burst <= 1000000))),
    CONSTRAINT __deferred_queue_fn_check CHECK ((fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'::text)),
    CONSTRAINT __deferred_queue_max_attempts_check CHECK ((max_attempts > 0)),
    CONSTRAINT __deferred_queue_max_dequeue_check CHECK (((max_dequeue >= 1) AND (max_dequeue <= 1000))),
    CONSTRAINT __deferred_queue_max_length_check CHECK ((max_length > 0)),
    CONSTRAINT __deferred_queue_max_running_check CHECK ((max_running > 0)),
    CONSTRAINT __deferred_queue_name_check CHECK ((name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'::text)),
    CONSTRAINT __deferred_queue_on_full_check CHECK ((on_full = ANY (ARRAY['error'::text, 'drop'::text]))),
    CONSTRAINT __deferred_queue_params_max_bytes_check CHECK ((params_max_bytes > 0)),
    CONSTRAINT __deferred_queue_rate_check CHECK (((rate >= (0.0000001)::double precision) AND (rate <= ('1000000'::numeric)::double precision))),
    CONSTRAINT __deferred_queue_ttl_ms_check CHECK ((ttl_ms > 0)),
    CONSTRAINT __deferred_queue_visibility_timeout_ms_check CHECK (((visibility_timeout_ms >= 1000) AND (visibility_timeout_ms <= 86400000))),
    CONSTRAINT __deferred_queue_weight_check CHECK (((weight >= (0.001)::double precision) AND (weight <= (1000)::double precision)))
);

ALTER TABLE deferred.__deferred_queue OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_queue; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_queue IS 'queues and their settings; a queue is added by the first job deferred to it';

--
-- Name: COLUMN __deferred_queue.name; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.name IS 'name of the queue';

--
-- Name: COLUMN __deferred_queue.paused; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.paused IS 'true: nothing is claimed from it';

--
-- Name: COLUMN __deferred_queue.params_max_bytes; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.params_max_bytes IS 'largest params accepted, in bytes';

--
-- Name: COLUMN __deferred_queue.created_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.created_at IS 'when it was added';

--
-- Name: COLUMN __deferred_queue.visibility_timeout_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.visibility_timeout_ms IS 'length of a lease, milliseconds; NULL: what the worker says';

--
-- Name: COLUMN __deferred_queue.ttl_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.ttl_ms IS 'a job deferred without an expiry expires after that, milliseconds; NULL: never';

--
-- Name: COLUMN __deferred_queue.max_attempts; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.max_attempts IS 'of jobs that say nothing; NULL: what the function or the worker says';

--
-- Name: COLUMN __deferred_queue.backoff_floor_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.backoff_floor_ms IS 'of jobs that say nothing, milliseconds; NULL: what the worker says';

--
-- Name: COLUMN __deferred_queue.backoff_ceiling_ms; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.backoff_ceiling_ms IS 'of jobs that say nothing, milliseconds; NULL: what the worker says';

--
-- Name: COLUMN __deferred_queue.backoff_exponent; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.backoff_exponent IS 'of jobs that say nothing; NULL: what the worker says';

--
-- Name: COLUMN __deferred_queue.max_running; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.max_running IS 'attempts at once, all workers together; NULL: no limit';

--
-- Name: COLUMN __deferred_queue.rate; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.rate IS 'attempts a second, all workers together; NULL: no limit';

--
-- Name: COLUMN __deferred_queue.burst; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.burst IS 'attempts that may start at once after a pause, where there is a rate; NULL: 1';

--
-- Name: COLUMN __deferred_queue.max_length; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.max_length IS 'hot jobs it holds, each deferral counts that far; NULL: no limit';

--
-- Name: COLUMN __deferred_queue.on_full; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.on_full IS 'what a deferral to a full queue does: error, or drop the new job without a word';

--
-- Name: COLUMN __deferred_queue.fn; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.fn IS 'function that a message deferred without one becomes a call of; NULL: it stays a message';

--
-- Name: COLUMN __deferred_queue.metadata; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.metadata IS 'for applications; the HTTP front shows fn and max_dequeue with it';

--
-- Name: COLUMN __deferred_queue.weight; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.weight IS 'share of the claims of a worker that serves several queues';

--
-- Name: COLUMN __deferred_queue.limited_jobs; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.limited_jobs IS 'true: some hot job of it may be marked as limited; once true it stays so';

--
-- Name: COLUMN __deferred_queue.removed_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.removed_at IS 'when it was removed; the row stays, so that a job deferred in the same moment is not lost, and the next deferral brings it back';

--
-- Name: COLUMN __deferred_queue.max_dequeue; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.max_dequeue IS 'a message taken so often goes to the queue NAME-poison instead of being taken again; NULL: no limit';

--
-- Name: COLUMN __deferred_queue.acl; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.acl IS 'stored access policies of the HTTP front, as they were set';

--
-- Name: COLUMN __deferred_queue.clearing_to; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.clearing_to IS 'removed with jobs in it, which are being cleared up to this id; NULL: none are';

--
-- Name: COLUMN __deferred_queue.simple; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_queue.simple IS 'true: no setting is about a job without options that is deferred to it, unless its params are large';

--
-- Name: __deferred_rule_id_seq; Type: SEQUENCE; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE deferred.__deferred_rule ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME deferred.__deferred_rule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: __deferred_track; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_track (
    worker bigint NOT NULL,
    group_name text NOT NULL,
    range integer NOT NULL,
    since bigint NOT NULL,
    round bigint NOT NULL,
    made integer NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    CONSTRAINT __deferred_track_check CHECK ((round >= since)),
    CONSTRAINT __deferred_track_made_check CHECK ((made >= 0)),
    CONSTRAINT __deferred_track_range_check CHECK ((range >= 1))
)
WITH (fillfactor='50', autovacuum_vacuum_cost_delay='0');

ALTER TABLE deferred.__deferred_track OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_track; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_track IS 'workers that are in a group and have work: those that the others of the group wait for';

--
-- Name: COLUMN __deferred_track.worker; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_track.worker IS 'worker: __deferred_worker.id';

--
-- Name: COLUMN __deferred_track.group_name; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_track.group_name IS 'its group: __deferred_group.name';

--
-- Name: COLUMN __deferred_track.range; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_track.range IS 'range it was started with';

--
-- Name: COLUMN __deferred_track.since; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_track.since IS 'round in which it joined';

--
-- Name: COLUMN __deferred_track.round; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_track.round IS 'round it is in';

--
-- Name: COLUMN __deferred_track.made; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_track.made IS 'steps it reported of that round: attempts begun';

--
-- Name: COLUMN __deferred_track.lease_until; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_track.lease_until IS 'not reported again by then, it is taken for dead and blocks nobody';

--
-- Name: __deferred_turn_0; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_turn_0 (
);

ALTER TABLE deferred.__deferred_turn_0 OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_turn_0; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_turn_0 IS 'locked by a worker that claims in turn with many others; never has rows';

--
-- Name: __deferred_turn_1; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_turn_1 (
);

ALTER TABLE deferred.__deferred_turn_1 OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_turn_1; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_turn_1 IS 'as __deferred_turn_0, for the other half of the jobs';

--
-- Name: __deferred_worker; Type: TABLE; Schema: deferred; Owner: deferred_owner
--

CREATE TABLE deferred.__deferred_worker (
    id bigint NOT NULL,
    instance text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    held bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    queues text[]
)
WITH (fillfactor='50', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY deferred.__deferred_worker ALTER COLUMN held SET STORAGE EXTERNAL;

ALTER TABLE deferred.__deferred_worker OWNER TO deferred_owner;

--
-- Name: TABLE __deferred_worker; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON TABLE deferred.__deferred_worker IS 'runs of check_deferred that had work, one row each';

--
-- Name: COLUMN __deferred_worker.id; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.id IS 'worker id';

--
-- Name: COLUMN __deferred_worker.instance; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.instance IS 'host and pidfile: two runs of one instance never overlap';

--
-- Name: COLUMN __deferred_worker.host; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.host IS 'host name';

--
-- Name: COLUMN __deferred_worker.pid; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.pid IS 'process id on that host';

--
-- Name: COLUMN __deferred_worker.version; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.version IS 'version of the program';

--
-- Name: COLUMN __deferred_worker.started_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.started_at IS 'when it registered';

--
-- Name: COLUMN __deferred_worker.seen_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.seen_at IS 'its last claim or renewal';

--
-- Name: COLUMN __deferred_worker.ended_at; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.ended_at IS 'when it ended, or was found dead; NULL: taken to be alive';

--
-- Name: COLUMN __deferred_worker.held; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.held IS 'ids it may hold a claim on, so that its successor finds them without a scan';

--
-- Name: COLUMN __deferred_worker.queues; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON COLUMN deferred.__deferred_worker.queues IS 'queues it serves; NULL: all';

--
-- Name: __deferred_worker_id_seq; Type: SEQUENCE; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE deferred.__deferred_worker ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME deferred.__deferred_worker_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: job; Type: VIEW; Schema: deferred; Owner: deferred_owner
--

CREATE VIEW deferred.job AS
 SELECT d.id,
    d.queue,
    d.fn,
    d.label,
    d.key,
    d.priority,
    d.created_at,
    d.created_by,
        CASE
            WHEN (h.id IS NULL) THEN deferred.state(l.outcome)
            WHEN ((h.receipt IS NOT NULL) AND (h.visible_at > clock_timestamp())) THEN 'claimed'::text
            WHEN (h.due_at > clock_timestamp()) THEN 'delayed'::text
            ELSE 'ready'::text
        END AS state,
    COALESCE(h.attempt, l.attempts, 0) AS attempt,
    COALESCE(h.due_at, h.visible_at) AS visible_at,
    h.worker,
    h.started_at,
        CASE
            WHEN (h.id IS NULL) THEN l.finished_at
            ELSE NULL::timestamp with time zone
        END AS finished_at,
    l.outcome AS last_outcome,
    d.concurrency_key,
    COALESCE(h.limited, false) AS limited
   FROM ((deferred.__deferred d
     LEFT JOIN deferred.__deferred_hot h USING (id))
     LEFT JOIN LATERAL ( SELECT last_value(x.outcome) OVER w AS outcome,
            max(x.attempt) OVER w AS attempts,
            last_value(x.finished_at) OVER w AS finished_at
           FROM deferred.__deferred_log x
          WHERE (x.job_id = d.id)
          WINDOW w AS (ORDER BY x.finished_at, x.attempt ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
         LIMIT 1) l ON (true));

ALTER TABLE deferred.job OWNER TO deferred_owner;

--
-- Name: VIEW job; Type: COMMENT; Schema: deferred; Owner: deferred_owner
--

COMMENT ON VIEW deferred.job IS 'every job with its state; without params, results and error texts';

--
-- Name: __deferred_default; Type: TABLE ATTACH; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred ATTACH PARTITION deferred.__deferred_default DEFAULT;

--
-- Name: __deferred_log_default; Type: TABLE ATTACH; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_log ATTACH PARTITION deferred.__deferred_log_default DEFAULT;

--
-- Name: __deferred_account __deferred_account_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_account
    ADD CONSTRAINT __deferred_account_pkey PRIMARY KEY (name);

--
-- Name: __deferred_cursor __deferred_cursor_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_cursor
    ADD CONSTRAINT __deferred_cursor_pkey PRIMARY KEY (queue, priority);

--
-- Name: __deferred __deferred_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred
    ADD CONSTRAINT __deferred_pkey PRIMARY KEY (id);

--
-- Name: __deferred_default __deferred_default_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_default
    ADD CONSTRAINT __deferred_default_pkey PRIMARY KEY (id);

--
-- Name: __deferred_function __deferred_function_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_function
    ADD CONSTRAINT __deferred_function_pkey PRIMARY KEY (name);

--
-- Name: __deferred_grant __deferred_grant_role_queue_fn_key; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_grant
    ADD CONSTRAINT __deferred_grant_role_queue_fn_key UNIQUE NULLS NOT DISTINCT (role, queue, fn);

--
-- Name: __deferred_group __deferred_group_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_group
    ADD CONSTRAINT __deferred_group_pkey PRIMARY KEY (name);

--
-- Name: __deferred_hot __deferred_hot_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_hot
    ADD CONSTRAINT __deferred_hot_pkey PRIMARY KEY (id);

--
-- Name: __deferred_limit __deferred_limit_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_limit
    ADD CONSTRAINT __deferred_limit_pkey PRIMARY KEY (kind, queue, name);

--
-- Name: __deferred_migration __deferred_migration_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_migration
    ADD CONSTRAINT __deferred_migration_pkey PRIMARY KEY (version);

--
-- Name: __deferred_progress __deferred_progress_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_progress
    ADD CONSTRAINT __deferred_progress_pkey PRIMARY KEY (job_id);

--
-- Name: __deferred_queue __deferred_queue_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_queue
    ADD CONSTRAINT __deferred_queue_pkey PRIMARY KEY (name);

--
-- Name: __deferred_rule __deferred_rule_name_key; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_rule
    ADD CONSTRAINT __deferred_rule_name_key UNIQUE (name);

--
-- Name: __deferred_rule __deferred_rule_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_rule
    ADD CONSTRAINT __deferred_rule_pkey PRIMARY KEY (id);

--
-- Name: __deferred_track __deferred_track_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_track
    ADD CONSTRAINT __deferred_track_pkey PRIMARY KEY (worker);

--
-- Name: __deferred_worker __deferred_worker_pkey; Type: CONSTRAINT; Schema: deferred; Owner: deferred_owner
--

ALTER TABLE ONLY deferred.__deferred_worker
    ADD CONSTRAINT __deferred_worker_pkey PRIMARY KEY (id);

--
-- Name: __deferred_hot_bounded; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_hot_bounded ON deferred.__deferred_hot USING btree (queue) WHERE bounded;

--
-- Name: __deferred_hot_concurrency; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_hot_concurrency ON deferred.__deferred_hot USING btree (queue, hashtextextended(concurrency_key, (0)::bigint), id) WHERE (concurrency_key IS NOT NULL);

--
-- Name: __deferred_hot_delayed; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_hot_delayed ON deferred.__deferred_hot USING btree (due_at) WHERE ((due_at IS NOT NULL) AND (fn IS NOT NULL));

--
-- Name: __deferred_hot_key; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE UNIQUE INDEX __deferred_hot_key ON deferred.__deferred_hot USING btree (queue, key) WHERE (key IS NOT NULL);

--
-- Name: __deferred_hot_limited; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_hot_limited ON deferred.__deferred_hot USING btree (queue, fn, priority DESC, id) WHERE (limited AND (due_at IS NULL) AND (concurrency_key IS NULL));

--
-- Name: __deferred_hot_message; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_hot_message ON deferred.__deferred_hot USING btree (queue, due_at NULLS FIRST, priority DESC, xid, id) WHERE (fn IS NULL);

--
-- Name: __deferred_hot_ready; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_hot_ready ON deferred.__deferred_hot USING btree (queue, priority DESC, xid, id) WHERE ((due_at IS NULL) AND (NOT limited) AND (fn IS NOT NULL));

--
-- Name: __deferred_log_ended; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_log_ended ON ONLY deferred.__deferred_log USING btree (finished_at) WHERE (final AND (outcome <> 'ok'::text));

--
-- Name: __deferred_log_default_finished_at_idx; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_log_default_finished_at_idx ON deferred.__deferred_log_default USING btree (finished_at) WHERE (final AND (outcome <> 'ok'::text));

--
-- Name: __deferred_log_job; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_log_job ON ONLY deferred.__deferred_log USING btree (job_id);

--
-- Name: __deferred_log_default_job_id_idx; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_log_default_job_id_idx ON deferred.__deferred_log_default USING btree (job_id);

--
-- Name: __deferred_track_group; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_track_group ON deferred.__deferred_track USING btree (group_name);

--
-- Name: __deferred_worker_alive; Type: INDEX; Schema: deferred; Owner: deferred_owner
--

CREATE INDEX __deferred_worker_alive ON deferred.__deferred_worker USING btree (instance) WHERE (ended_at IS NULL);

--
-- Name: __deferred_default_pkey; Type: INDEX ATTACH; Schema: deferred; Owner: deferred_owner
--

ALTER INDEX deferred.__deferred_pkey ATTACH PARTITION deferred.__deferred_default_pkey;

--
-- Name: __deferred_log_default_finished_at_idx; Type: INDEX ATTACH; Schema: deferred; Owner: deferred_owner
--

ALTER INDEX deferred.__deferred_log_ended ATTACH PARTITION deferred.__deferred_log_default_finished_at_idx;

--
-- Name: __deferred_log_default_job_id_idx; Type: INDEX ATTACH; Schema: deferred; Owner: deferred_owner
--

ALTER INDEX deferred.__deferred_log_job ATTACH PARTITION deferred.__deferred_log_default_job_id_idx;

--
-- Name: SCHEMA deferred; Type: ACL; Schema: -; Owner: deferred_owner
--

GRANT USAGE ON SCHEMA deferred TO deferred_producer;
GRANT USAGE ON SCHEMA deferred TO deferred_worker;
GRANT USAGE ON SCHEMA deferred TO deferred_viewer;
GRANT USAGE ON SCHEMA deferred TO deferred_http;

--
-- Name: FUNCTION __account_add(name text, key1 bytea, key2 bytea); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__account_add(name text, key1 bytea, key2 bytea) FROM PUBLIC;

--
-- Name: FUNCTION __account_ls(); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__account_ls() FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__account_ls() TO deferred_http;

--
-- Name: FUNCTION __account_properties(name text, properties json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__account_properties(name text, properties json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__account_properties(name text, properties json) TO deferred_http;

--
-- Name: FUNCTION __account_rm(name text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__account_rm(name text) FROM PUBLIC;

--
-- Name: FUNCTION __account_set(name text, key1 bytea, key2 bytea, enabled boolean); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__account_set(name text, key1 bytea, key2 bytea, enabled boolean) FROM PUBLIC;

--
-- Name: FUNCTION __actor(); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__actor() FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__actor() TO deferred_worker;

--
-- Name: FUNCTION __add_partition(parent text, name text, col text, lo text, hi text, in_use boolean); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__add_partition(parent text, name text, col text, lo text, hi text, in_use boolean) FROM PUBLIC;

--
-- Name: FUNCTION __claim_limited(queues text[], n integer, n_rated integer, worker bigint, receipt bigint, lease_ms bigint, max_attempts integer, unknown text[], held bigint[], seed bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__claim_limited(queues text[], n integer, n_rated integer, worker bigint, receipt bigint, lease_ms bigint, max_attempts integer, unknown text[], held bigint[], seed bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__claim_limited(queues text[], n integer, n_rated integer, worker bigint, receipt bigint, lease_ms bigint, max_attempts integer, unknown text[], held bigint[], seed bigint) TO deferred_worker;

--
-- Name: FUNCTION __concurrency_ok(key text, n integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__concurrency_ok(key text, n integer) FROM PUBLIC;

--
-- Name: FUNCTION __depth_ok(params json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__depth_ok(params json) FROM PUBLIC;

--
-- Name: FUNCTION __enqueue(fn text, params json, queue text, label text, priority integer, delay_ms bigint, run_at timestamp with time zone, expires_ms bigint, expires_at timestamp with time zone, key text, on_duplicate text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision, concurrency_key text, concurrency integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__enqueue(fn text, params json, queue text, label text, priority integer, delay_ms bigint, run_at timestamp with time zone, expires_ms bigint, expires_at timestamp with time zone, key text, on_duplicate text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision, concurrency_key text, concurrency integer) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__enqueue(fn text, params json, queue text, label text, priority integer, delay_ms bigint, run_at timestamp with time zone, expires_ms bigint, expires_at timestamp with time zone, key text, on_duplicate text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision, concurrency_key text, concurrency integer) TO deferred_producer;

--
-- Name: FUNCTION __enqueue_many(fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[], run_at timestamp with time zone[], expires_ms bigint[], expires_at timestamp with time zone[], key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[], concurrency_key text[], concurrency integer[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__enqueue_many(fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[], run_at timestamp with time zone[], expires_ms bigint[], expires_at timestamp with time zone[], key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[], concurrency_key text[], concurrency integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__enqueue_many(fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[], run_at timestamp with time zone[], expires_ms bigint[], expires_at timestamp with time zone[], key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[], concurrency_key text[], concurrency integer[]) TO deferred_producer;

--
-- Name: FUNCTION __enqueue_opts(fn text, params json, opts json, queue text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__enqueue_opts(fn text, params json, opts json, queue text) FROM PUBLIC;

--
-- Name: FUNCTION __forget_keys(batch integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__forget_keys(batch integer) FROM PUBLIC;

--
-- Name: FUNCTION __front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, OUT xid xid8, OUT id bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, OUT xid xid8, OUT id bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, OUT xid xid8, OUT id bigint) TO deferred_worker;

--
-- Name: FUNCTION __function_set(name text, settings json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__function_set(name text, settings json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__function_set(name text, settings json) TO deferred_worker;

--
-- Name: FUNCTION __is_limited(queue text, fn text, concurrency_key text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__is_limited(queue text, fn text, concurrency_key text) FROM PUBLIC;

--
-- Name: FUNCTION __mark(from_id bigint, batch integer, OUT marked bigint, OUT next_id bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__mark(from_id bigint, batch integer, OUT marked bigint, OUT next_id bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__mark(from_id bigint, batch integer, OUT marked bigint, OUT next_id bigint) TO deferred_worker;

--
-- Name: FUNCTION __may_touch(owner name); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__may_touch(owner name) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__may_touch(owner name) TO deferred_worker;

--
-- Name: FUNCTION __message_clear(queue text, to_id bigint, batch integer, OUT status integer, OUT cleared bigint, OUT upto bigint, OUT more boolean); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_clear(queue text, to_id bigint, batch integer, OUT status integer, OUT cleared bigint, OUT upto bigint, OUT more boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_clear(queue text, to_id bigint, batch integer, OUT status integer, OUT cleared bigint, OUT upto bigint, OUT more boolean) TO deferred_http;

--
-- Name: FUNCTION __message_clear_some(queue text, to_id bigint, batch integer, OUT cleared bigint, OUT more boolean); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_clear_some(queue text, to_id bigint, batch integer, OUT cleared bigint, OUT more boolean) FROM PUBLIC;

--
-- Name: FUNCTION __message_delete(queues text[], ids bigint[], receipts bigint[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_delete(queues text[], ids bigint[], receipts bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_delete(queues text[], ids bigint[], receipts bigint[]) TO deferred_http;

--
-- Name: FUNCTION __message_expire(ids bigint[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_expire(ids bigint[]) FROM PUBLIC;

--
-- Name: FUNCTION __message_get(queues text[], counts integer[], visibility_ms bigint[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_get(queues text[], counts integer[], visibility_ms bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_get(queues text[], counts integer[], visibility_ms bigint[]) TO deferred_http;

--
-- Name: FUNCTION __message_holds(receipt bigint, held bigint, put_receipt bigint, attempt integer, worker bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_holds(receipt bigint, held bigint, put_receipt bigint, attempt integer, worker bigint) FROM PUBLIC;

--
-- Name: FUNCTION __message_last_id(); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_last_id() FROM PUBLIC;

--
-- Name: FUNCTION __message_may(queue text, fn text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_may(queue text, fn text) FROM PUBLIC;

--
-- Name: FUNCTION __message_metadata(metadata json, fn text, max_dequeue integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_metadata(metadata json, fn text, max_dequeue integer) FROM PUBLIC;

--
-- Name: FUNCTION __message_metadata_read(queue text, metadata json, OUT ok boolean, OUT fn text, OUT max_dequeue integer, OUT rest json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_metadata_read(queue text, metadata json, OUT ok boolean, OUT fn text, OUT max_dequeue integer, OUT rest json) FROM PUBLIC;

--
-- Name: FUNCTION __message_params(text text, bound boolean); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_params(text text, bound boolean) FROM PUBLIC;

--
-- Name: FUNCTION __message_peek(queues text[], counts integer[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_peek(queues text[], counts integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_peek(queues text[], counts integer[]) TO deferred_http;

--
-- Name: FUNCTION __message_poison(ids bigint[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_poison(ids bigint[]) FROM PUBLIC;

--
-- Name: FUNCTION __message_put(queues text[], texts text[], visibility_s bigint[], ttl_s bigint[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_put(queues text[], texts text[], visibility_s bigint[], ttl_s bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_put(queues text[], texts text[], visibility_s bigint[], ttl_s bigint[]) TO deferred_http;

--
-- Name: FUNCTION __message_queue_acl(queue text, OUT status integer, OUT acl json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_queue_acl(queue text, OUT status integer, OUT acl json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_queue_acl(queue text, OUT status integer, OUT acl json) TO deferred_http;

--
-- Name: FUNCTION __message_queue_acl(queue text, acl json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_queue_acl(queue text, acl json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_queue_acl(queue text, acl json) TO deferred_http;

--
-- Name: FUNCTION __message_queue_create(queue text, metadata json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_queue_create(queue text, metadata json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_queue_create(queue text, metadata json) TO deferred_http;

--
-- Name: FUNCTION __message_queue_get(queue text, OUT status integer, OUT metadata json, OUT messages bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_queue_get(queue text, OUT status integer, OUT metadata json, OUT messages bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_queue_get(queue text, OUT status integer, OUT metadata json, OUT messages bigint) TO deferred_http;

--
-- Name: FUNCTION __message_queue_metadata(queue text, metadata json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_queue_metadata(queue text, metadata json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_queue_metadata(queue text, metadata json) TO deferred_http;

--
-- Name: FUNCTION __message_queue_rm(queue text, batch integer, OUT status integer, OUT upto bigint, OUT more boolean); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_queue_rm(queue text, batch integer, OUT status integer, OUT upto bigint, OUT more boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_queue_rm(queue text, batch integer, OUT status integer, OUT upto bigint, OUT more boolean) TO deferred_http;

--
-- Name: FUNCTION __message_queues(account text, prefix text, from_name text, n integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_queues(account text, prefix text, from_name text, n integer) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_queues(account text, prefix text, from_name text, n integer) TO deferred_http;

--
-- Name: FUNCTION __message_room(queues text[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_room(queues text[]) FROM PUBLIC;

--
-- Name: FUNCTION __message_running(queues text[], room json, ids bigint[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_running(queues text[], room json, ids bigint[]) FROM PUBLIC;

--
-- Name: FUNCTION __message_sweep(from_id bigint, batch integer, OUT expired bigint, OUT next_id bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_sweep(from_id bigint, batch integer, OUT expired bigint, OUT next_id bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_sweep(from_id bigint, batch integer, OUT expired bigint, OUT next_id bigint) TO deferred_http;

--
-- Name: FUNCTION __message_text(params json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_text(params json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_text(params json) TO deferred_http;

--
-- Name: FUNCTION __message_text_escaped(params json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_text_escaped(params json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_text_escaped(params json) TO deferred_http;

--
-- Name: FUNCTION __message_update(queues text[], ids bigint[], receipts bigint[], visibility_s bigint[], texts text[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_update(queues text[], ids bigint[], receipts bigint[], visibility_s bigint[], texts text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__message_update(queues text[], ids bigint[], receipts bigint[], visibility_s bigint[], texts text[]) TO deferred_http;

--
-- Name: FUNCTION __message_why(queues text[], ids bigint[], done integer[]); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__message_why(queues text[], ids bigint[], done integer[]) FROM PUBLIC;

--
-- Name: FUNCTION __ms(name text, span text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__ms(name text, span text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__ms(name text, span text) TO deferred_producer;

--
-- Name: FUNCTION __opts_ok(label text, key text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__opts_ok(label text, key text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__opts_ok(label text, key text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision) TO deferred_worker;

--
-- Name: FUNCTION __purge_jobs(older_than interval, from_id bigint, batch integer, OUT purged bigint, OUT next_id bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__purge_jobs(older_than interval, from_id bigint, batch integer, OUT purged bigint, OUT next_id bigint) FROM PUBLIC;

--
-- Name: FUNCTION __purge_log(part regclass, older_than interval, page bigint, pages integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__purge_log(part regclass, older_than interval, page bigint, pages integer) FROM PUBLIC;

--
-- Name: FUNCTION __purge_partition(older_than interval); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__purge_partition(older_than interval) FROM PUBLIC;

--
-- Name: FUNCTION __purge_workers(older_than interval); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__purge_workers(older_than interval) FROM PUBLIC;

--
-- Name: FUNCTION __queue_clear(queue text, from_id bigint, to_id bigint, batch integer, OUT cancelled bigint, OUT next_id bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__queue_clear(queue text, from_id bigint, to_id bigint, batch integer, OUT cancelled bigint, OUT next_id bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__queue_clear(queue text, from_id bigint, to_id bigint, batch integer, OUT cancelled bigint, OUT next_id bigint) TO deferred_worker;

--
-- Name: FUNCTION __queue_expiry(queue text, since timestamp with time zone); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__queue_expiry(queue text, since timestamp with time zone) FROM PUBLIC;

--
-- Name: FUNCTION __queue_length(queue text, stop integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__queue_length(queue text, stop integer) FROM PUBLIC;

--
-- Name: FUNCTION __queue_rm(name text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__queue_rm(name text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__queue_rm(name text) TO deferred_worker;

--
-- Name: FUNCTION __queue_set(name text, settings json, add boolean); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__queue_set(name text, settings json, add boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__queue_set(name text, settings json, add boolean) TO deferred_worker;

--
-- Name: FUNCTION __refuse_receipt(id bigint, receipt bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__refuse_receipt(id bigint, receipt bigint) FROM PUBLIC;

--
-- Name: FUNCTION __rule_add(name text, query text, fn text, params json, key_column text, queue text, priority integer, opts json, statement_timeout_ms bigint, search_path text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_add(name text, query text, fn text, params json, key_column text, queue text, priority integer, opts json, statement_timeout_ms bigint, search_path text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_add(name text, query text, fn text, params json, key_column text, queue text, priority integer, opts json, statement_timeout_ms bigint, search_path text) TO deferred_producer;

--
-- Name: FUNCTION __rule_failed(name text, error text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_failed(name text, error text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_failed(name text, error text) TO deferred_producer;

--
-- Name: FUNCTION __rule_fetch(); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_fetch() FROM PUBLIC;

--
-- Name: FUNCTION __rule_get(name text, taking boolean); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_get(name text, taking boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_get(name text, taking boolean) TO deferred_producer;

--
-- Name: FUNCTION __rule_is_mine(owner regrole); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_is_mine(owner regrole) FROM PUBLIC;

--
-- Name: FUNCTION __rule_look(name text, sample integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_look(name text, sample integer) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_look(name text, sample integer) TO deferred_producer;

--
-- Name: FUNCTION __rule_make(r deferred.__deferred_rule, what text, volatility text, body text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_make(r deferred.__deferred_rule, what text, volatility text, body text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_make(r deferred.__deferred_rule, what text, volatility text, body text) TO deferred_producer;

--
-- Name: FUNCTION __rule_may_defer(owner name, queue text, fn text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_may_defer(owner name, queue text, fn text) FROM PUBLIC;

--
-- Name: FUNCTION __rule_open(name text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_open(name text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_open(name text) TO deferred_producer;

--
-- Name: FUNCTION __rule_prologue(r deferred.__deferred_rule); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_prologue(r deferred.__deferred_rule) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_prologue(r deferred.__deferred_rule) TO deferred_producer;

--
-- Name: FUNCTION __rule_remove(name text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_remove(name text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_remove(name text) TO deferred_producer;

--
-- Name: FUNCTION __rule_room(jobs double precision); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_room(jobs double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_room(jobs double precision) TO deferred_producer;

--
-- Name: FUNCTION __rule_run(name text, estimate double precision, ticks boolean, OUT queued bigint, OUT skipped bigint, OUT failed bigint, OUT examples json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_run(name text, estimate double precision, ticks boolean, OUT queued bigint, OUT skipped bigint, OUT failed bigint, OUT examples json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rule_run(name text, estimate double precision, ticks boolean, OUT queued bigint, OUT skipped bigint, OUT failed bigint, OUT examples json) TO deferred_producer;

--
-- Name: FUNCTION __rule_tick(what text, n bigint, v timestamp with time zone); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rule_tick(what text, n bigint, v timestamp with time zone) FROM PUBLIC;

--
-- Name: FUNCTION __rules(); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__rules() FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__rules() TO deferred_producer;
GRANT ALL ON FUNCTION deferred.__rules() TO deferred_viewer;

--
-- Name: FUNCTION __server_start(); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__server_start() FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__server_start() TO deferred_worker;

--
-- Name: FUNCTION __state(id bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__state(id bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__state(id bigint) TO deferred_producer;

--
-- Name: FUNCTION __track_bury(p_group text, p_except bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__track_bury(p_group text, p_except bigint) FROM PUBLIC;

--
-- Name: FUNCTION __track_move(p_worker bigint, p_group text, p_range integer, p_lease_ms bigint, p_round bigint, p_made integer, OUT live boolean, OUT round bigint, OUT steps integer, OUT made integer); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__track_move(p_worker bigint, p_group text, p_range integer, p_lease_ms bigint, p_round bigint, p_made integer, OUT live boolean, OUT round bigint, OUT steps integer, OUT made integer) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__track_move(p_worker bigint, p_group text, p_range integer, p_lease_ms bigint, p_round bigint, p_made integer, OUT live boolean, OUT round bigint, OUT steps integer, OUT made integer) TO deferred_worker;

--
-- Name: FUNCTION __track_round_over(p_group text, p_worker bigint, p_round bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__track_round_over(p_group text, p_worker bigint, p_round bigint) FROM PUBLIC;

--
-- Name: FUNCTION __unawaited(queue text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__unawaited(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__unawaited(queue text) TO deferred_producer;

--
-- Name: FUNCTION __waits(queue text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__waits(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__waits(queue text) TO deferred_producer;

--
-- Name: FUNCTION __wake(queue text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.__wake(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.__wake(queue text) TO deferred_producer;

--
-- Name: FUNCTION cancel(id bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.cancel(id bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.cancel(id bigint) TO deferred_producer;

--
-- Name: FUNCTION check_ledger(); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.check_ledger() FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.check_ledger() TO deferred_worker;

--
-- Name: FUNCTION claim(queue text, n integer, lease_ms bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.claim(queue text, n integer, lease_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.claim(queue text, n integer, lease_ms bigint) TO deferred_http;
GRANT ALL ON FUNCTION deferred.claim(queue text, n integer, lease_ms bigint) TO deferred_worker;

--
-- Name: FUNCTION defer(fn text, params json, opts json, queue text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.defer(fn text, params json, opts json, queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.defer(fn text, params json, opts json, queue text) TO deferred_producer;

--
-- Name: FUNCTION defer_many(jobs json); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.defer_many(jobs json) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.defer_many(jobs json) TO deferred_producer;

--
-- Name: FUNCTION extend(id bigint, receipt bigint, lease_ms bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.extend(id bigint, receipt bigint, lease_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.extend(id bigint, receipt bigint, lease_ms bigint) TO deferred_producer;
GRANT ALL ON FUNCTION deferred.extend(id bigint, receipt bigint, lease_ms bigint) TO deferred_http;

--
-- Name: FUNCTION finish(id bigint, receipt bigint, result text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.finish(id bigint, receipt bigint, result text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.finish(id bigint, receipt bigint, result text) TO deferred_producer;
GRANT ALL ON FUNCTION deferred.finish(id bigint, receipt bigint, result text) TO deferred_http;

--
-- Name: FUNCTION maintain(); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.maintain() TO deferred_worker;

--
-- Name: FUNCTION release(id bigint, receipt bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.release(id bigint, receipt bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.release(id bigint, receipt bigint) TO deferred_http;
GRANT ALL ON FUNCTION deferred.release(id bigint, receipt bigint) TO deferred_worker;

--
-- Name: FUNCTION retry(id bigint); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.retry(id bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.retry(id bigint) TO deferred_worker;

--
-- Name: FUNCTION state(outcome text); Type: ACL; Schema: deferred; Owner: deferred_owner
--

REVOKE ALL ON FUNCTION deferred.state(outcome text) FROM PUBLIC;
GRANT ALL ON FUNCTION deferred.state(outcome text) TO deferred_worker;
GRANT ALL ON FUNCTION deferred.state(outcome text) TO deferred_viewer;

--
-- Name: TABLE __deferred; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT ON TABLE deferred.__deferred TO deferred_worker;

--
-- Name: TABLE __deferred_cursor; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT,INSERT,UPDATE ON TABLE deferred.__deferred_cursor TO deferred_worker;

--
-- Name: TABLE __deferred_function; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT ON TABLE deferred.__deferred_function TO deferred_worker;
GRANT SELECT ON TABLE deferred.__deferred_function TO deferred_viewer;

--
-- Name: TABLE __deferred_group; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT ON TABLE deferred.__deferred_group TO deferred_worker;
GRANT SELECT ON TABLE deferred.__deferred_group TO deferred_viewer;

--
-- Name: TABLE __deferred_hot; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT,DELETE,UPDATE ON TABLE deferred.__deferred_hot TO deferred_worker;

--
-- Name: COLUMN __deferred_hot.id; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(id) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.queue; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(queue) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.fn; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(fn) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.priority; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(priority) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.due_at; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(due_at) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.visible_at; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(visible_at) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.attempt; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(attempt) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.worker; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(worker) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.started_at; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(started_at) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.expires_at; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(expires_at) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.key; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(key) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.limited; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(limited) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: COLUMN __deferred_hot.concurrency_key; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(concurrency_key) ON TABLE deferred.__deferred_hot TO deferred_viewer;

--
-- Name: TABLE __deferred_limit; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT,INSERT,UPDATE ON TABLE deferred.__deferred_limit TO deferred_worker;
GRANT SELECT ON TABLE deferred.__deferred_limit TO deferred_viewer;

--
-- Name: TABLE __deferred_log; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT,INSERT ON TABLE deferred.__deferred_log TO deferred_worker;

--
-- Name: COLUMN __deferred_log.ctid; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(ctid) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.job_id; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(job_id) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.attempt; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(attempt) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.outcome; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(outcome) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.final; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(final) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.exit_code; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(exit_code) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.signal; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(signal) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.started_at; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(started_at) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.finished_at; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(finished_at) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.worker; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(worker) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.plugin; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(plugin) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.wait_us; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(wait_us) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.run_us; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(run_us) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.user_us; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(user_us) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.sys_us; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(sys_us) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: COLUMN __deferred_log.max_rss_kb; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT(max_rss_kb) ON TABLE deferred.__deferred_log TO deferred_viewer;

--
-- Name: TABLE __deferred_migration; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT ON TABLE deferred.__deferred_migration TO deferred_producer;
GRANT SELECT ON TABLE deferred.__deferred_migration TO deferred_worker;
GRANT SELECT ON TABLE deferred.__deferred_migration TO deferred_viewer;
GRANT SELECT ON TABLE deferred.__deferred_migration TO deferred_http;

--
-- Name: TABLE __deferred_progress; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE deferred.__deferred_progress TO deferred_worker;
GRANT SELECT ON TABLE deferred.__deferred_progress TO deferred_viewer;

--
-- Name: TABLE __deferred_queue; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT ON TABLE deferred.__deferred_queue TO deferred_worker;
GRANT SELECT ON TABLE deferred.__deferred_queue TO deferred_viewer;

--
-- Name: COLUMN __deferred_queue.limited_jobs; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT UPDATE(limited_jobs) ON TABLE deferred.__deferred_queue TO deferred_worker;

--
-- Name: TABLE __deferred_track; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT,DELETE ON TABLE deferred.__deferred_track TO deferred_worker;
GRANT SELECT ON TABLE deferred.__deferred_track TO deferred_viewer;

--
-- Name: TABLE __deferred_turn_0; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT UPDATE ON TABLE deferred.__deferred_turn_0 TO deferred_worker;

--
-- Name: TABLE __deferred_turn_1; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT UPDATE ON TABLE deferred.__deferred_turn_1 TO deferred_worker;

--
-- Name: TABLE __deferred_worker; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT,INSERT,UPDATE ON TABLE deferred.__deferred_worker TO deferred_worker;
GRANT SELECT ON TABLE deferred.__deferred_worker TO deferred_viewer;

--
-- Name: TABLE job; Type: ACL; Schema: deferred; Owner: deferred_owner
--

GRANT SELECT ON TABLE deferred.job TO deferred_worker;
GRANT SELECT ON TABLE deferred.job TO deferred_viewer;

--
-- PostgreSQL database dump complete
--
