-- Writes down that something is wrong, or still is; part of deferred.__alert().
create or replace function deferred.__alert_found(cause text, name text, text text,
                                                  remedy text) returns void
language sql
as $$
    insert into deferred.__deferred_alert as a (cause, name, text, remedy) values ($1, $2, $3, $4)
    on conflict (cause, name) do update
    set since = case when a.ended_at is null then a.since else now() end, seen_at = now(),
        ended_at = null, text = excluded.text, remedy = excluded.remedy
$$;
