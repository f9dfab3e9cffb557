-- Unguessable: the server makes a uuid of this kind of 122 random bits.
create or replace function deferred.__random() returns bigint
language sql volatile
as $$
    select ('x' || encode(substr(sha256(uuid_send(gen_random_uuid())), 1, 8),
                          'hex'))::bit(64)::bigint
$$;
comment on function deferred.__random() is 'a random number of 64 bits';
grant execute on function deferred.__random() to deferred_worker;
