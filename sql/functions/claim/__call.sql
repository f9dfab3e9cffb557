-- The call of one job. Its id is known before the plan begins: of all partitions only that one is
-- opened in which it lies.
create or replace function deferred.__call(p_id bigint) returns setof deferred.__deferred
language plpgsql stable rows 1
as $$
begin
    return query select d.* from deferred.__deferred d where d.id = p_id;
end
$$;
comment on function deferred.__call is 'the call of one job; part of deferred.__claim_limited()';
grant execute on function deferred.__call to deferred_worker;
