-- The token with this SHA-256, if it is valid now: no row or one. A function in SQL would be
-- planned at each call.
create or replace function deferred.__token_find(sha256 bytea, out name text, out may text[],
                                                 out functions text[], out queues text[])
returns setof record
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return query select t.name, t.may, t.functions, t.queues
    from deferred.__deferred_token t
    where (t.sha256 = $1 or t.old_sha256 = $1 and t.old_until > clock_timestamp())
      and (t.expires_at > clock_timestamp()) is not false;
end
$$;
grant execute on function deferred.__token_find(bytea) to deferred_http;
