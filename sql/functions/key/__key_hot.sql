-- The key for the hot row of a new job. NULL: a job that has given the key up (key_until start) has
-- it in its own hot row.
create or replace function deferred.__key_hot(p_queue text, p_own_key text) returns text
language sql stable
as $$
    select case when not exists (
        select from deferred.__deferred_hot h
        join deferred.__deferred d on d.id = h.id and d.key_until_ms = 0
        where h.queue = $1 and h.key = $2 and deferred.__key_started(h)) then $2 end
$$;
comment on function deferred.__key_hot is 'part of deferred.__enqueue_key(): key of the hot row';
