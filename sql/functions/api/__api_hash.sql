-- A hash of a request. A repeated request has the same hash.
create or replace function deferred.__api_hash(op text, arg text, body text) returns bytea
language sql immutable
as $$
    select sha256(convert_to(concat_ws(E'\n', $1, $2, $3), 'UTF8'))
$$;
