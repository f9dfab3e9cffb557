-- True if the account that a queue belongs to was given a function. A message of a stranger can
-- call only functions that the account was given. Callers check this when a queue is bound, at each
-- put, and when a call gets other params. The binding may be older than the answer, or an operator
-- may have made it. A queue of no account gives no right: the role of the front must not reach the
-- queues of others by SQL either. In PL/pgSQL, which keeps the plan.
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
