-- Many moments as people write them, in one subtransaction.
create or replace function deferred.__moments(name text, moments text[]) returns timestamptz[]
language plpgsql stable strict
as $$
begin
    return moments::pg_catalog.timestamptz[];
exception when data_exception then
    return (select pg_catalog.array_agg(deferred.__moment($1, m.text) order by m.n)
            from pg_catalog.unnest($2) with ordinality m(text, n));
end
$$;
comment on function deferred.__moments(text, text[]) is 'moments as people write them';
grant execute on function deferred.__moments(text, text[]) to deferred_producer;
