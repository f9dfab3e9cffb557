-- The answer to a request that stored a job. NULL: its queue is full, and drops jobs then.
create or replace function deferred.__api_stored(id bigint) returns text
language sql immutable
as $$
    select '{"id": ' || coalesce($1::text, 'null') || '}'
$$;
