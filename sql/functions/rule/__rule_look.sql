-- Estimate and plan of a rule in the first row, its first rows as jobs in the others; to be rolled
-- back. Plan, estimate and first rows. To be rolled back: the owner's code has run in this
-- transaction.
create or replace function deferred.__rule_look(name text, sample integer)
returns table (estimate double precision, plan text, key text, params json)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    r deferred.__deferred_rule := deferred.__rule_get($1, false);
begin
    perform deferred.__rule_make(r,
                                 '__deferred_rule_look() returns table (estimate double precision, '
                                 'plan text, key text, params json)', 'volatile', format($f$
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
        return query execute 'select null::pg_catalog.float8, null::pg_catalog.text, x.* from (' ||
            v_query || ' limit %s) x (key, params)';
    end if;
end$f$, deferred.__rule_prologue(r), r.query, sample, sample));
    perform set_config('transaction_read_only', 'on', true);
    return query execute 'select * from pg_temp.__deferred_rule_look()';
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
end
$$;
grant execute on function deferred.__rule_look to deferred_producer;
