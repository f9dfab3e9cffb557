-- For queues whose name matches, but not those that a longer pattern gives their settings.
create or replace function deferred.__pattern_take(pattern text) returns setof text
language sql set search_path = pg_catalog, pg_temp
as $$
    update deferred.__deferred_queue q set pattern = ''
    where q.removed_at is null and starts_with(q.name, left($1, -1))
      and case when q.pattern is null then to_jsonb(q) @> deferred.__queue_plain()
               else length(q.pattern) <= length($1) end
    returning q.name
$$;
comment on function deferred.__pattern_take is
    'has the queues that a pattern may concern take their settings again; returns their names';
