-- Else who guesses another's key could have his jobs swallowed, or held up for ever. The length
-- tells where the name ends.
create or replace function deferred.__own_key(owner text, key text) returns text
language sql immutable
as $$
    select case when $2 is not null then length($1) || ':' || $1 || ':' || $2 end
$$;
comment on function deferred.__own_key(text, text) is
    'key of a job, or concurrency key, that only jobs deferred by the same role share; NULL: none';
grant execute on function deferred.__own_key(text, text) to deferred_worker;
