-- Makes a job that this transaction has just stored wait for an event, as its parent p_parent.
-- Part of option "wait_for".
create or replace function deferred.__await(p_id bigint, p_parent bigint,
                                            p_item jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_now     timestamptz := clock_timestamp();
    v_name    text := p_item->>'event';
    v_ms      bigint := deferred.__ms('within', p_item->>'within');
    v_timeout text := p_item->>'on_timeout';
begin
    if (p_item - array['event', 'within', 'on_timeout', 'as'] = '{}'
        and jsonb_typeof(p_item->'event') = 'string' and length(v_name) between 1 and 200
        and coalesce(length(p_item->>'as'), 1) between 1 and 100
        and coalesce(v_timeout, 'cancel') in ('cancel', 'fail', 'run')
        and (v_timeout is null or v_ms is not null) and coalesce(v_ms, 1) > 0) is not true then
        raise exception using errcode = '22023',
            message = format('option ''wait_for'' has the invalid value ''%s''',
                             left(p_item::text, 200)),
            hint = 'write a name of 1 to 200 characters, or {"event": "paid:4711", "within": '
                   '"3 days", "on_timeout": "cancel", "as": "payment"}; "on_timeout" is cancel, '
                   'fail or run';
    end if;
    if exists (select from deferred.__deferred_awaited a where a.child = p_id and a.name = v_name)
        then
        raise exception using errcode = '22023',
            message = format('option ''wait_for'' names event ''%s'' twice', v_name),
            hint = 'name each event once';
    end if;
    insert into deferred.__deferred_edge (child, parent, kind, name)
    values (p_id, p_parent, case v_timeout when 'run' then 'e' else 'o' end::"char",
            coalesce(p_item->>'as', v_name));
    insert into deferred.__deferred_awaited (child, parent, owner, name, since, until, on_timeout)
    select p_id, p_parent, d.created_by, v_name, v_now, v_now + v_ms * interval '1 millisecond',
           left(coalesce(v_timeout, 'cancel'), 1)::"char"
    from deferred.__deferred d where d.id = p_id;
end
$$;
comment on function deferred.__await is 'has a job that was just stored wait for an event';
