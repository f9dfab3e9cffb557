-- Waits for nobody, and so does nobody for the transaction that calls it: it locks no row of a
-- queue. Its plan is kept, which the many calls of a claim would otherwise make again each.
create or replace function deferred.__limited_add(queue text) returns void
language plpgsql
as $$
begin
    insert into deferred.__deferred_limited (queue)
    select $1 where not exists (select from deferred.__deferred_limited l where l.queue = $1);
end
$$;
comment on function deferred.__limited_add(text) is
    'notes that a queue has limited jobs, so that workers ask for them';
grant execute on function deferred.__limited_add(text) to deferred_worker;
