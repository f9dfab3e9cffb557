-- Restores the limit that a function had before the breaker paused it. Called when an attempt did
-- not crash (__breaker.sql), and by hand.
create or replace function deferred.__function_resume(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v deferred.__deferred_function;
begin
    select * into v from deferred.__deferred_function f where f.name = $1
        and f.broken_at is not null for update;
    if not found then
        return false;
    end if;
    if coalesce(v.own_max_running, v.own_rate) is null then
        delete from deferred.__deferred_function f where f.name = $1;
    else
        update deferred.__deferred_function f
        set max_running = v.own_max_running, rate = v.own_rate, burst = v.own_burst,
            own_max_running = null, own_rate = null, own_burst = null, broken_at = null
        where f.name = $1;
    end if;
    -- Crashes before that are not counted again.
    update deferred.__deferred_alert a set ended_at = now()
    where a.cause = 'breaker' and a.name = $1;
    perform deferred.__wake(q.name) from deferred.__deferred_queue q where q.removed_at is null;
    return true;
end
$$;
comment on function deferred.__function_resume(text) is
    'ends the pause of a function that the breaker made; returns whether there was one';
grant execute on function deferred.__function_resume(text) to deferred_worker;
