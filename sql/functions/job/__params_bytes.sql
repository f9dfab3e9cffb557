-- The size of large params, which a claim must know without reading them, because it limits the
-- bytes that it takes. Few jobs have such params, and a NULL takes no space in the row.
create or replace function deferred.__params_bytes(params json) returns integer
language sql immutable
as $$
    select nullif(greatest(octet_length($1::text), 1024), 1024)
$$;
comment on function deferred.__params_bytes is
    'bytes of params where they are more than 1,024; else NULL';
grant execute on function deferred.__params_bytes to deferred_worker;
