-- POST /v1/jobs of several clients at once: sql/queries/api/api_defer.sql. Element i of all arrays
-- is request i. If all can be stored together, they are. Otherwise each becomes a request alone, so
-- that none affects another one.
create or replace function deferred.__api_many(tokens text[], bodies text[], keys text[])
returns table (item integer, status integer, answer text, location text, replayed boolean,
               retry_after integer, who text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    begin
        return query select * from deferred.__api_simple($1, $2, $3);
        if not found and cardinality($1) > 1 then
            return query select * from deferred.__api_together($1, $2, $3);
        end if;
        if found then return; end if;
    exception when others then
        if deferred.__api_status(sqlstate) is null then raise; end if;
    end;
    return query
    select i.n::integer, a.status, a.answer, a.location, a.replayed, a.retry_after, a.who
    from unnest($1, $2, $3) with ordinality i(token, body, key, n)
    cross join lateral deferred.__api(i.token, 'defer', null, '{}', '{}', i.body, i.key, false) a
    order by i.n;
end
$$;
comment on function deferred.__api_many is 'part of the JSON API of deferred_http: jobs to store';
grant execute on function deferred.__api_many to deferred_http;
