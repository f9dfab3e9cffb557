-- The kind of an error: its first line, with each number replaced by #. Errors are grouped by kind,
-- and a group is retried by kind.
create or replace function deferred.__error_kind(error text) returns text
language sql immutable
as $$
    select regexp_replace(left(split_part(left(error, 1000), E'\n', 1), 300), '[0-9]+', '#', 'g')
$$;
grant execute on function deferred.__error_kind to deferred_worker, deferred_reader,
      deferred_producer;
