-- Tells the program how far a run has come; returns its last argument.
create or replace function deferred.__rule_tick(what text, n bigint,
                                                v timestamptz) returns timestamptz
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    raise info using errcode = 'DR001', message = format('%s %s', what, n);
    return v;
end
$$;
