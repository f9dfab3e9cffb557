-- True if the account that a queue belongs to was given a function. What a stranger sends becomes a
-- call only of functions that the account was given. Asked when a queue is bound and again at each
-- put, and where a call is to get other params: the binding may be older than the answer, or an
-- operator's. A queue of no account gives no right: the role of the front must not reach the queues
-- of others by SQL either. In PL/pgSQL, which keeps the plan.
create or replace function deferred.__account_may(queue text, fn text) returns boolean
language plpgsql stable
as $$
begin
    return exists (select from deferred.__deferred_account a, unnest(a.functions) f(name)
                   where a.name = split_part($1, '.', 1) and strpos($1, '.') > 0
                     and (f.name = $2 or (right(f.name, 2) = '.*'
                                          and starts_with($2, left(f.name, -1)))));
end
$$;
