-- 0002 rules: stored queries whose rows become jobs.
--
-- Whose rights. A rule belongs to the role that added it, and somebody else may run it: a superuser's crontab,
-- say. The query then must not get hold of the rights of who runs it.
--
-- SET ROLE alone is no fence: a function the query calls may RESET ROLE. What cannot be left is a SECURITY DEFINER
-- function that belongs to the rule's owner. Nobody can make one for another role but who may SET ROLE to it, so
-- it is made when it is needed, in the temporary schema of the session that runs the rule, and called in the same
-- transaction: as long as it is not committed, no other session can alter it. Its body hands the text of the query to
-- EXECUTE, so nothing of that text is looked at before the function runs (already parsing '(x)'::some_type can
-- call a function of the owner's). SET ROLE to the owner comes on top, before that function is called and until the transaction ends:
-- deferred.__actor() asks who acts, and many functions of others do, whom the definer of a function is nothing to; inside of one
-- nobody can change it. Without it the query was told what he may know who runs the rule: other owners' rules, say. So
-- what follows in that transaction, __rule_run() too, has the owner's rights at most. Who runs a rule has to be a member of the owner's role, and the owner needs the right
-- to make temporary objects (which PUBLIC has, unless it was taken away).
--
-- Such a function can still leave things behind for the session that called it, and what the transaction does next
-- has to bear it:
-- - settings: search_path is pinned again right after the call, by a statement in which there is nothing to look up
--   (__rule_fetch);
-- - a cursor WITH HOLD, whose query the server would run at commit, with the rights of the session: refused;
-- - prepared statements, session settings and session locks: the program clears them in the message that ends the transaction.
-- The code of the owner runs once a transaction, in one call; trying a rule out is rolled back.
--
-- Read-only. transaction_read_only is on while the query runs, which gives the clear message, and could not be
-- switched off, were there not RESET, which up to PostgreSQL 15 forgets to ask. So the call is a subtransaction of its own:
-- whatever writes, large objects and sequences included, gives that subtransaction a transaction id, and so a row in
-- pg_locks, and the run fails.
--
-- One pass, one statement, no row on its way to the client: __rule_run() inserts what __rule_fetch() returns. The hot row
-- goes first, so that the unique index decides about a key; ids are drawn for those rows only whose key is not hot
-- already, or a rule that is run every minute would use up the range of a partition in a day. Rows are queued in the order
-- of their keys, which fills the index of keys page after page: processor time for 300,000 hot rows 3.2 s with the sort, 3.9 s
-- without, and more the larger the table is. tests/bench/rules.py compares the whole with INSERT ... SELECT.

set local role deferred_owner;

create table deferred.__deferred_rule (
    id                   bigint generated always as identity primary key,
    name                 text collate "C" not null unique check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'),
    query                text not null,
    fn                   text collate "C" not null,
    params               json not null default '{}',
    key_column           text not null,
    queue                text collate "C" not null default 'default',
    priority             smallint not null default 0,
    opts                 json not null default '{}',
    owner                regrole not null,
    search_path          text not null,
    statement_timeout_ms integer not null check (statement_timeout_ms > 0),
    created_at           timestamptz not null default clock_timestamp(),
    last_run_at          timestamptz,
    last_run_ms          bigint,
    last_run_by          name,
    last_queued          bigint,
    last_skipped         bigint,
    last_failed          bigint,
    last_error           text
);
comment on table  deferred.__deferred_rule is 'stored queries whose rows become jobs';
comment on column deferred.__deferred_rule.id is 'rule id';
comment on column deferred.__deferred_rule.name is 'name it is run by';
comment on column deferred.__deferred_rule.query is 'one SELECT; each row becomes a job';
comment on column deferred.__deferred_rule.fn is 'function of the jobs';
comment on column deferred.__deferred_rule.params is 'object whose members every job gets, but for those the query has a column for';
comment on column deferred.__deferred_rule.key_column is 'column whose text is the key of the job, among the jobs of its owner';
comment on column deferred.__deferred_rule.queue is 'queue of the jobs';
comment on column deferred.__deferred_rule.priority is 'priority of the jobs';
comment on column deferred.__deferred_rule.opts is 'further options of the jobs, as deferred.defer() takes them';
comment on column deferred.__deferred_rule.owner is 'role that added it; the query runs with its rights, the jobs are its jobs. By oid: a role made anew by that name is another one';
comment on column deferred.__deferred_rule.search_path is 'the search_path of its owner when it was added';
comment on column deferred.__deferred_rule.statement_timeout_ms is 'limit of one run, milliseconds';
comment on column deferred.__deferred_rule.created_at is 'when it was added (database clock)';
comment on column deferred.__deferred_rule.last_run_at is 'when the last run began (database clock)';
comment on column deferred.__deferred_rule.last_run_ms is 'what it took, milliseconds';
comment on column deferred.__deferred_rule.last_run_by is 'login role that ran it';
comment on column deferred.__deferred_rule.last_queued is 'rows it made jobs of; NULL: it failed as a whole';
comment on column deferred.__deferred_rule.last_skipped is 'rows whose key was hot already';
comment on column deferred.__deferred_rule.last_failed is 'rows without a key, or beyond a limit of the queue';
comment on column deferred.__deferred_rule.last_error is 'why it failed';

-- ---------------------------------------------------------------- adding, reading, removing

create function deferred.__rule_is_mine(owner regrole) returns boolean
language sql stable
as $$
    -- An owner that was dropped is nobody's.
    select exists (select from pg_roles r where r.oid = owner and pg_has_role(deferred.__actor(), r.oid, 'member'))
$$;
comment on function deferred.__rule_is_mine(regrole) is 'true for the owner of a rule and members of it';

-- deferred.__deferred_grant limits owners of rules too, and cannot be got around by running somebody else's rule.
create function deferred.__rule_may_defer(owner name, queue text, fn text) returns boolean
language sql stable
as $$
    select coalesce(bool_and(x.allowed), true)
    from (select bool_or((g.queue is null or g.queue = $2) and (g.fn is null or g.fn = $3)) as allowed
          from deferred.__deferred_grant g where g.role in ($1, deferred.__actor(), session_user)
          group by (g.role = $1)) x
$$;
comment on function deferred.__rule_may_defer(name, text, text) is 'true if neither the owner of a rule nor who acts is kept from deferring that';

create function deferred.__rule_add(
    name text, query text, fn text, params json, key_column text, queue text, priority integer, opts json,
    statement_timeout_ms bigint, search_path text)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
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
$$;
comment on function deferred.__rule_add is 'stores a rule, which then belongs to the role that acts; part of "deferred rule add"';

-- The rule for one who may run it. taking: nobody else runs or removes it until the transaction ends.
create function deferred.__rule_get(name text, taking boolean) returns deferred.__deferred_rule
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
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
$$;
comment on function deferred.__rule_get(text, boolean) is 'a rule for the owner and members of it';

create function deferred.__rule_remove(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint := (deferred.__rule_get($1, true)).id;
begin
    delete from deferred.__deferred_rule x where x.id = v_id;
end
$$;
comment on function deferred.__rule_remove(text) is 'removes a rule; its jobs stay';

create function deferred.__rule_failed(name text, error text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint := (deferred.__rule_get($1, true)).id;
begin
    update deferred.__deferred_rule x
    set last_run_at = clock_timestamp(), last_run_ms = null, last_run_by = session_user, last_queued = null, last_skipped = null,
        last_failed = null, last_error = left($2, 2000)
    where x.id = v_id;
end
$$;
comment on function deferred.__rule_failed(text, text) is 'notes that a run failed as a whole, which has rolled back what it did';

create function deferred.__rules() returns setof deferred.__deferred_rule
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select r.id, r.name, case when m.mine then r.query end, r.fn, case when m.mine then r.params end, r.key_column, r.queue, r.priority, r.opts,
           r.owner, r.search_path, r.statement_timeout_ms, r.created_at, r.last_run_at, r.last_run_ms, r.last_run_by, r.last_queued,
           r.last_skipped, r.last_failed, case when m.mine then r.last_error end
    from deferred.__deferred_rule r cross join lateral (select deferred.__rule_is_mine(r.owner) as mine) m
    where m.mine or pg_has_role(deferred.__actor(), 'deferred_viewer', 'member')
    order by r.name
$$;
comment on function deferred.__rules() is 'the rules one may run; for viewers all of them, without query, params and errors of those of others';

-- ---------------------------------------------------------------- evaluating

-- The beginning of the functions below, which belong to the owner of the rule: its search_path; the columns of its query, by
-- planning it without reading a row; the members of the params that are no columns, as columns. A row wins against the params.
-- The aliases are long because a column of that name would be taken in their place.
create function deferred.__rule_prologue(r deferred.__deferred_rule) returns text
language sql stable
as $$
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
$$;
comment on function deferred.__rule_prologue(deferred.__deferred_rule) is 'what the functions begin with that evaluate a rule';

-- Makes such a function in the temporary schema. Whoever calls it must be able to SET ROLE to the owner, and so
-- it runs with the rights of the caller; who acts from then on until the transaction ends is the owner.
create function deferred.__rule_make(r deferred.__deferred_rule, what text, volatility text, body text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner name := (select x.rolname from pg_roles x where x.oid = r.owner);
    v_sql   text := format(E'create function pg_temp.%s language plpgsql %s security definer set transaction_read_only = on '
                           'set search_path = pg_catalog, pg_temp as %L', what, volatility, body);
begin
    if not has_database_privilege(r.owner, current_database(), 'temporary') then
        raise exception using errcode = '42501', message = format('role %I, which owns rule %L, may not make temporary objects', v_owner, r.name),
            hint = format('grant temporary on database %I to %I', current_database(), v_owner);
    end if;
    if not pg_has_role(r.owner, 'deferred_producer', 'usage') then
        raise exception using errcode = '42501', message = format('role %I, which owns rule %L, may not defer any more', v_owner, r.name),
            hint = format('grant deferred_producer to %I', v_owner);
    end if;
    perform set_config('role', v_owner, true);
    execute v_sql;
    execute format('grant execute on function pg_temp.%s to deferred_owner', split_part(what, ' returns', 1));
end
$$;
comment on function deferred.__rule_make(deferred.__deferred_rule, text, text, text) is 'makes a function that evaluates a rule with the rights of its owner, and sets the role to him';

-- Plan, estimate and first rows. To be rolled back: the owner's code has run in this transaction.
create function deferred.__rule_look(name text, sample integer)
returns table (estimate double precision, plan text, key text, params json)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
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
$$;
comment on function deferred.__rule_look(text, integer) is 'estimate and plan of a rule in the first row, its first rows as jobs in the others; to be rolled back';

create function deferred.__rule_open(name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
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
$$;
comment on function deferred.__rule_open(text) is 'takes a rule and makes ready what __rule_run() reads from';

-- Reads the rows of the rule that __rule_open() made ready, and makes sure of what the head of this file says.
create function deferred.__rule_fetch() returns table (key text, params json)
language plpgsql set search_path = pg_catalog, pg_temp set transaction_read_only = on rows 10000
as $$
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
comment on function deferred.__rule_fetch() is 'the rows of a rule as key and params; part of __rule_run()';

-- ---------------------------------------------------------------- queueing

create function deferred.__rule_tick(what text, n bigint, v timestamptz) returns timestamptz
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    raise info using errcode = 'DR001', message = format('%s %s', what, n);
    return v;
end
$$;
comment on function deferred.__rule_tick(text, bigint, timestamptz) is 'tells the program how far a run has come; returns its last argument';

create function deferred.__rule_run(name text, estimate double precision, ticks boolean,
    out queued bigint, out skipped bigint, out failed bigint, out examples json)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off set work_mem = '64MB'
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
    if not exists (select from deferred.__deferred_queue q where q.name = r.queue and q.removed_at is null) then
        perform deferred.__queue_add(r.queue, v_owner);
    end if;
    update deferred.__deferred_queue q set limited_jobs = true where v_limited and q.name = r.queue and not q.limited_jobs;
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
                          left join deferred.__deferred_hot h on h.queue = r.queue and h.key = v_mine || f.key) f
                    window w as (order by f.key collate "C")) t) s),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, key, limited, bounded)
        select s.id, r.queue, r.fn, r.priority, v_due,
               case when ticks and s.n % 8192 = 0 then deferred.__rule_tick('queued', s.n, coalesce(v_due, v_now)) else coalesce(v_due, v_now) end,
               v_expires, v_mine || s.key, v_limited, v_max_length is not null
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
    set last_run_at = v_start, last_run_ms = extract(epoch from clock_timestamp() - v_start) * 1000, last_run_by = session_user,
        last_queued = queued, last_skipped = skipped, last_failed = failed, last_error = null
    where x.id = r.id;
end
$$;
comment on function deferred.__rule_run(text, double precision, boolean) is 'makes jobs of the rows of the rule that __rule_open() took; ticks: tell how far it has come';

-- Partitions for so many jobs, in a transaction of its own: what lands in the net is moved later, at twice the cost.
create function deferred.__rule_room(jobs double precision) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
as $$
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
comment on function deferred.__rule_room(double precision) is 'adds the partitions that so many jobs need; returns how many';

revoke all on function deferred.__rule_is_mine(regrole), deferred.__rule_may_defer(name, text, text), deferred.__rule_add, deferred.__rule_get(text, boolean),
    deferred.__rule_remove(text), deferred.__rule_failed(text, text), deferred.__rules(), deferred.__rule_prologue(deferred.__deferred_rule),
    deferred.__rule_make(deferred.__deferred_rule, text, text, text), deferred.__rule_look(text, integer), deferred.__rule_open(text),
    deferred.__rule_fetch(), deferred.__rule_tick(text, bigint, timestamptz), deferred.__rule_run(text, double precision, boolean),
    deferred.__rule_room(double precision) from public;
grant execute on function deferred.__rule_add, deferred.__rule_get(text, boolean), deferred.__rule_remove(text), deferred.__rule_failed(text, text),
    deferred.__rules(), deferred.__rule_prologue(deferred.__deferred_rule), deferred.__rule_make(deferred.__deferred_rule, text, text, text),
    deferred.__rule_look(text, integer), deferred.__rule_open(text), deferred.__rule_run(text, double precision, boolean),
    deferred.__rule_room(double precision) to deferred_producer;
grant execute on function deferred.__rules() to deferred_viewer;

reset role;
