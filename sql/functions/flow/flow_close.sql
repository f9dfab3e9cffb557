create or replace function deferred.flow_close(flow bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_spec json;
    v_then json;
    v_ids  bigint[];
begin
    if not exists (select from deferred.__deferred_flow f
                   where f.id = flow and deferred.__may_touch(f.created_by)) then
        raise exception using errcode = 'P0002',
            message = format('flow %s does not exist', flow),
            hint = 'it was never deferred, was purged, or belongs to a role that you are not a '
                   'member of';
    end if;
    update deferred.__deferred_flow_open o set closed_at = clock_timestamp()
    where o.flow = flow and o.closed_at is null returning o.spec into v_spec;
    if not found then return false; end if;
    if v_spec is not null then
        v_then := v_spec->'then';
        v_ids := deferred.__flow_store(v_spec, nextval('deferred.__deferred_id_seq'));
        insert into deferred.__deferred_member (flow, job, name, part)
        select flow, u.id, v_then->(u.n::integer - 1)->>'name', 't'
        from unnest(v_ids) with ordinality u(id, n);
        insert into deferred.__deferred_wait (id, waits, failure, due_at)
        select h.id, 1, case when v_then->(u.n::integer - 1)->>'on' = 'failed' then 0 end, h.due_at
        from unnest(v_ids) with ordinality u(id, n) join deferred.__deferred_hot h on h.id = u.id;
        update deferred.__deferred_hot h set due_at = 'infinity', watched = false
        where h.id = any (v_ids);
        update deferred.__deferred_flow_open o set callbacks = v_ids where o.flow = flow;
    end if;
    insert into deferred.__deferred_ended (id, what, upto) values (flow, 'z', 0);
    return true;
end
$$;
comment on function deferred.flow_close(bigint) is
    'has a flow that was opened end as soon as all its jobs have, which may add others until '
    'then; its callbacks wait for that. False: it is closed already';
grant execute on function deferred.flow_close(bigint) to deferred_producer;
