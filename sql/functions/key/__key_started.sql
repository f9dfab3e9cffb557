-- An attempt that is in progress is not counted in the row of a call, but a lease shows it.
create or replace function deferred.__key_started(h deferred.__deferred_hot) returns boolean
language sql stable
as $$
    select h.attempt > 0 or deferred.__is_claimed(h)
$$;
comment on function deferred.__key_started is
    'true: the first attempt of the job has started, so a key with key_until start is free';
grant execute on function deferred.__key_started to deferred_worker, deferred_viewer;
