-- Most jobs have no options, their queue has no settings, and no role has limits. Then one
-- condition replaces all the checks of __enqueue(), which cost as much as the rows.
--
-- It runs with the rights of its owner and on the search_path of its caller. Setting a path would
-- cost as much as a row's insert into an index. A mail, which gets a label, is left to __enqueue().
-- So no name here may be looked up in the path. Each function, operator, type and collation is
-- named with its schema. IN, BETWEEN, NULLIF and DISTINCT FROM, which hide an operator, are not
-- used. Functions called here are written in the same way (__nobody_waits, __wake, __waits,
-- __unawaited), or set a path of their own. A test (tests/sql/test_defer.py) tries a forgery of
-- every name.
create or replace function deferred.defer(fn text, params json default '{}', opts json default null,
                                          queue text default null) returns bigint
language plpgsql security definer
as $$
#variable_conflict use_column
declare
    v_queue  pg_catalog.text collate pg_catalog."C" := coalesce($4, 'default');
    v_simple boolean;
    v_id     bigint;
    v_now    timestamp with time zone;
    v_role   pg_catalog.text;
begin
    if $3 is not null then
        return deferred.__enqueue_opts($1, $2, $3, $4);
    end if;
    select q.simple into v_simple from deferred.__deferred_queue q
    where q.name operator(pg_catalog.=) v_queue;
    if (v_simple and pg_catalog.octet_length($2::pg_catalog.text) operator(pg_catalog.<=) 512
        and pg_catalog.octet_length($1) operator(pg_catalog.<=) 127
        and $1 operator(pg_catalog.<>) 'send_mail'
        and $1 collate pg_catalog."C" operator(pg_catalog.~) '^[A-Za-z_][A-Za-z0-9_.]*$'
        and pg_catalog.pg_sequence_last_value('deferred.__deferred_unrestricted')
            operator(pg_catalog.=) 1) is not true then
        return deferred.__enqueue($1, $2, $4, null, null, null, null, null, null, null, null, null,
                                  null, null, null, null);
    end if;
    -- this and the role are deferred.__actor(), a call of which would cost as much as reading the
    -- queue
    unlisten __deferred_actor;
    v_role := pg_catalog.current_setting('role', true);
    v_id := pg_catalog.nextval('deferred.__deferred_id_seq');
    v_now := pg_catalog.clock_timestamp();
    with hot as (
        insert into deferred.__deferred_hot (id, queue, fn, visible_at)
        values (v_id, v_queue, $1, v_now))
    insert into deferred.__deferred (id, queue, fn, params, created_at, created_by)
    values (v_id, v_queue, $1, $2, v_now,
        case when v_role operator(pg_catalog.<>) 'none' then v_role else session_user end);
    if not deferred.__nobody_waits() then
        perform deferred.__wake(v_queue);
    end if;
    return v_id;
end
$$;
comment on function deferred.defer(text, json, json, text) is
    'have fn run later with params; returns the job id';
grant execute on function deferred.defer(text, json, json, text) to deferred_producer;

-- Params that the caller has as jsonb. A call whose params and options are plain literals is not
-- ambiguous, because fn has a type of its own here. Such a call goes to the function above, as the
-- one with the preferred type of strings. The planner inlines this function.
create or replace function deferred.defer(fn deferred.__function_name, params jsonb,
                                          opts jsonb default null,
                                          queue text default null) returns bigint
language sql
as $$
    select deferred.defer($1::pg_catalog.text, $2::pg_catalog.json, $3::pg_catalog.json, $4)
$$;
comment on function deferred.defer(deferred.__function_name, jsonb, jsonb, text) is
    'the same with jsonb';
grant execute on function deferred.defer(deferred.__function_name, jsonb, jsonb,
                                         text) to deferred_producer;
