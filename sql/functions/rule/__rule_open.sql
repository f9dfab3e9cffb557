create or replace function deferred.__rule_open(name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    r deferred.__deferred_rule := deferred.__rule_get($1, true);
begin
    perform deferred.__rule_make(r, '__deferred_rule_rows() returns table (key text, params json)',
                                 'stable', format($f$
declare
    v_row json; v_columns text[]; v_extra text; v_query text;
begin%s
    return query execute v_query;
end$f$, deferred.__rule_prologue(r)));
end
$$;
comment on function deferred.__rule_open(text) is
    'takes a rule and makes ready what __rule_run() reads from';
grant execute on function deferred.__rule_open(text) to deferred_producer;
