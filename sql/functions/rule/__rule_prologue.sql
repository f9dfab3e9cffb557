-- The beginning of each function that evaluates a rule. It sets the search_path of the owner. It
-- plans the query, without reading a row, to learn its columns. It adds the members of the params
-- that are not columns as columns; a row wins against the params. The aliases are long because a
-- column of that name would be taken in their place.
create or replace function deferred.__rule_prologue(r deferred.__deferred_rule) returns text
language sql stable
as $$
    select format($f$
    perform pg_catalog.set_config('search_path', %1$L, true);
    execute %2$L into v_row;
    select array_agg(o.key) into v_columns from pg_catalog.json_object_keys(v_row) as o(key);
    if v_columns is null or not %3$L = any (v_columns) then
        raise exception using errcode = '22023',
            message = format('rule ''%%s'': the query has no column ''%%s''', %4$L, %3$L),
            hint = 'columns of the query: ' || coalesce(array_to_string(v_columns, ', '), 'none');
    end if;
    if (select count(distinct c.name) from unnest(v_columns) as c(name)) <> cardinality(v_columns)
        then
        raise exception using errcode = '22023',
            message = format('rule ''%%s'': two columns of the query have the same name', %4$L),
            hint = format('columns of the query: %%s', array_to_string(v_columns, ', '));
    end if;
    select coalesce(string_agg(format('%%L::pg_catalog.json as %%I, ', p.value::text, p.key), ''),
                    '') into v_extra
    from pg_catalog.json_each(%5$L::pg_catalog.json) as p where not p.key = any (v_columns);
    v_query :=
        format(E'select __deferred_row.%%I::pg_catalog.text, pg_catalog.row_to_json(__deferred_row)'
                      ' from (select %%s __deferred_query.* from (\n%%s\n) as __deferred_query) as '
                      '__deferred_row',
                      %3$L, v_extra, %6$L);$f$,
        r.search_path,
        format(E'select pg_catalog.row_to_json(__deferred_row) from (select __deferred_none.* from '
               '(select) as __deferred_one left join '
               '(select * from (\n%s\n) as __deferred_query limit 0) as __deferred_none on true) '
               'as __deferred_row', r.query),
        r.key_column, r.name, r.params::text, r.query)
$$;
grant execute on function deferred.__rule_prologue to deferred_producer;
