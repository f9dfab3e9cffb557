-- A worker says which functions it has. It informs people and is repeated each hour, so nobody
-- waits until it is on disk or on a standby.
create or replace function deferred.__offer(host text, origin text, catalog bigint, fn text[],
                                            plugin text[], timeout_ms bigint[],
                                            max_attempts integer[])
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    lock table deferred.__deferred_offer in exclusive mode;  -- see deferred.__functions_offered()
    insert into deferred.__deferred_offer as o (host, origin, catalog, fn, plugin, timeout_ms,
                                                max_attempts)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict on constraint __deferred_offer_pkey do update
    set catalog = excluded.catalog, seen_at = clock_timestamp(), fn = excluded.fn,
        plugin = excluded.plugin, timeout_ms = excluded.timeout_ms,
        max_attempts = excluded.max_attempts;
    perform deferred.__known_again(array(select f.fn from unnest($4, $7) f(fn, max_attempts)
                                         where f.max_attempts >= 0));
end
$$;
grant execute on function deferred.__offer to deferred_worker;
