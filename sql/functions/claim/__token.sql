-- As lib/run/token.c computes it: the first 64 bits of SHA-256 of both numbers, each as eight
-- bytes, the highest first.
create or replace function deferred.__token(id bigint, receipt bigint, worker bigint) returns bigint
language sql immutable
as $$
    select case when $3 is null then $2
                else ('x' || encode(substr(sha256(int8send($2) || int8send($1)), 1, 8),
                                    'hex'))::bit(64)::bigint end
$$;
comment on function deferred.__token(bigint, bigint, bigint) is
    'by what finish() and extend() know who holds a claim: of a worker''s a token of that job '
    'alone, of a consumer''s the receipt';
