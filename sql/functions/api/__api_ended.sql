-- Of these jobs, those that have ended or are gone: their places, from 1.
create or replace function deferred.__api_ended(ids bigint[]) returns setof integer
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select i.n::integer from unnest($1) with ordinality i(id, n)
    where not exists (select from deferred.__deferred_hot h where h.id = i.id)
$$;
grant execute on function deferred.__api_ended to deferred_http;
