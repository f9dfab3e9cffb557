-- For jobs that nobody's open transaction may stop. A queue without a row is one without settings.
create or replace function deferred.__queue_there(queue text) returns void
language plpgsql set lock_timeout = '10ms'
as $$
begin
    insert into deferred.__deferred_queue as q (name)
    select $1 where not exists (select from deferred.__deferred_queue x
                                where x.name = $1 and x.removed_at is null)
    on conflict (name) do update set removed_at = null where q.removed_at is not null;
exception when lock_not_available then
    null;  -- somebody is adding or changing it
end
$$;
comment on function deferred.__queue_there(text) is
    'adds a queue, or one that was removed, unless that would wait for another transaction';
