-- Stores the jobs of deferred.defer_many() if none has options. Otherwise it stores nothing, and
-- plain is false.
--
-- Each job is read once. Its bytes show that it has no member besides fn and params. These two
-- take 19 bytes besides their values, and fn alone takes 9. A further member takes at least 6, as
-- `,"x":1` does. If fewer are left, they are white space. But an empty name would take 5 bytes, and
-- the value `true` takes 2 fewer than the same name in quotes.
create or replace function deferred.__defer_many_plain(jobs json, out plain boolean,
                                                       out ids bigint[])
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    c_options constant text := E'^\\s*\\[\\s*\\{(\\s*"(fn|params)"\\s*:\\s*'
        '(\\{[^{}]*\\}|"[^"]*"|[0-9a-z]+)\\s*,)*\\s*"(?!fn"|params")';
    v_now    timestamptz := clock_timestamp();
    v_actor  name;
    v_fns    text[];
    v_params json[];
    v_simple boolean;
begin
    if json_typeof($1) is distinct from 'array' then
        raise exception using errcode = '22023',
            message = format('jobs must be a JSON array, but a JSON %s was given',
                             coalesce(json_typeof($1), 'null')),
            hint = 'for example [{"fn": "noop"}, {"fn": "send_mail", "params": {}}]';
    end if;
    perform deferred.__json_check('jobs', $1);
    -- If the first job seems to have options, reading all jobs for nothing costs more than a look.
    if left($1::text, 1000) ~ c_options and not deferred.__defer_many_names($1) then
        plain := false;
        return;
    end if;
    select array_agg(j.fn), array_agg(coalesce(j.params, '{}')),
           bool_and((octet_length(j.job::text) - octet_length(j.fn)
                         - coalesce(octet_length(j.params::text), -10) < 19 + 6
                     and j.fn <> 'true' and j.fn <> 'false') is true),
           bool_and((length(j.fn) <= 127 and j.fn <> 'send_mail'
                     and j.fn collate "C" ~ '^[A-Za-z_][A-Za-z0-9_.]*$'
                     and coalesce(octet_length(j.params::text), 0) <= 512) is true)
    into v_fns, v_params, plain, v_simple
    from (select e.job, e.job->>'fn' as fn, e.job->'params' as params
          from (select json_array_elements($1) as job) e offset 0) j;
    if (plain and strpos($1::text, '"":') = 0) is not true then
        plain := deferred.__defer_many_names($1);
        if not plain then return; end if;
    end if;
    -- If the queue 'default' has no settings, and no function or role has limits, no job needs a
    -- check of its own.
    if (v_simple and pg_sequence_last_value('deferred.__deferred_unrestricted') = 1
        and exists (select from deferred.__deferred_queue q
                    where q.name = 'default' and q.simple)) is not true then
        ids := array(select deferred.__enqueue_many(v_fns, v_params, null, null, null, null, null,
            null, null, null, null, null, null, null, null, null));
        return;
    end if;
    v_actor := deferred.__actor();
    ids := array(select nextval('deferred.__deferred_id_seq') from (select unnest(v_fns)) j);
    insert into deferred.__deferred_hot (id, queue, fn, visible_at)
    select j.id, 'default', j.fn, v_now from (select unnest(ids) as id, unnest(v_fns) as fn) j;
    insert into deferred.__deferred (id, queue, fn, params, created_at, created_by)
    select j.id, 'default', j.fn, j.params, v_now, v_actor
    from (select unnest(ids) as id, unnest(v_fns) as fn, unnest(v_params) as params) j;
    if not deferred.__nobody_waits() then
        perform deferred.__wake('default');
    end if;
end
$$;
comment on function deferred.__defer_many_plain is
    'part of deferred.defer_many(): stores jobs without options';
grant execute on function deferred.__defer_many_plain to deferred_producer;
