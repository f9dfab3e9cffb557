-- Makes a job that this transaction has just stored wait for existing jobs. parents is an id, or a
-- list of ids and objects. An object has members job, on (ok, failed or ended) and as, the name of
-- this parent for the job. An object with a member event is an event: deferred.__await().
create or replace function deferred.__after(p_id bigint, p_parents jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_item   jsonb;
    v_parent bigint;
    v_kind   text;
    v_events bigint := 0;
begin
    if jsonb_typeof(p_parents) <> 'array' then
        p_parents := jsonb_build_array(p_parents);
    end if;
    if jsonb_array_length(p_parents) not between 1 and 1000 then
        raise exception using errcode = '22023',
            message = format('option ''after'' names %s jobs, but 1 to 1000 are allowed',
                             jsonb_array_length(p_parents)),
            hint = 'let intermediate jobs wait for 1000 of them each, and this job for the '
                   'intermediate jobs';
    end if;
    for v_item in select i from jsonb_array_elements(p_parents) i loop
        if jsonb_typeof(v_item) = 'object' and v_item ? 'event' then
            v_events := v_events + 1;
            perform deferred.__await(p_id, -v_events, v_item);
            continue;
        end if;
        if jsonb_typeof(v_item) = 'number' then
            v_item := jsonb_build_object('job', v_item);
        end if;
        v_kind := case coalesce(v_item->>'on', 'ok') when 'ok' then 'o' when 'failed' then 'f'
                       when 'ended' then 'e' end;
        if jsonb_typeof(v_item) <> 'object' or v_item - array['job', 'on', 'as'] <> '{}'
            or v_kind is null
           or (v_item->>'job' ~ '^[0-9]{1,18}$') is not true
           or length(v_item->>'as') not between 1 and 100 then
            raise exception using errcode = '22023',
                message = format('option ''after'' has the invalid value ''%s''',
                                 left(v_item::text, 200)),
                hint = 'write 17, [17, 18] or [{"job": 17, "on": "failed", "as": "pack"}]; "on" '
                       'is ok, failed or ended';
        end if;
        v_parent := v_item->>'job';
        if v_parent >= p_id
           or not exists (select from deferred.__deferred d
                          where d.id = v_parent and deferred.__may_touch(d.created_by::name))
           or (not exists (select from deferred.__deferred_hot h where h.id = v_parent)
               and not exists (select from deferred.__deferred_log l
                               where l.job_id = v_parent and l.final)) then
            raise exception using errcode = '22023',
                message = format('option ''after'': job %s does not exist', v_parent),
                hint = 'a job waits for jobs and messages of its own role that were deferred '
                       'earlier and have not been purged';
        end if;
        insert into deferred.__deferred_edge (child, parent, kind, name)
        values (p_id, v_parent, v_kind::"char", v_item->>'as')
        on conflict do nothing;
        if not found then
            raise exception using errcode = '22023',
                message = format('option ''after'' names job %s twice', v_parent),
                hint = 'name each job once';
        end if;
    end loop;
    -- A job of a flow may wait already, for events.
    insert into deferred.__deferred_wait as w (id, waits, due_at)
    select h.id, jsonb_array_length(p_parents), h.due_at from deferred.__deferred_hot h
    where h.id = p_id
    on conflict (id) do update set waits = w.waits + excluded.waits;
    update deferred.__deferred_hot h set due_at = 'infinity' where h.id = p_id;
    insert into deferred.__deferred_ended (id, what) values (p_id, 'l');
end
$$;
comment on function deferred.__after is 'has a job that was just stored wait for others';
