-- The pause of a function by the breaker. The function gets limits, as anybody may set them: one
-- attempt at a time, and one in p_retry_ms, the first of them p_retry_ms from now. So claims need
-- no rule of their own for it, except that they choose the job to try at random.
--
-- deferred.__function_resume() puts back the limits that the function had before.
create or replace function deferred.__function_pause(
    p_fn text, p_crashed bigint, p_retry_ms bigint, out text text, out remedy text)
language plpgsql
as $$
begin
    insert into deferred.__deferred_function as f (name, max_running, rate, broken_at)
    values (p_fn, 1, 1000.0 / p_retry_ms, now())
    on conflict (name) do update
    set own_max_running = f.max_running, own_rate = f.rate, own_burst = f.burst,
        max_running = 1, rate = excluded.rate, burst = null, broken_at = now()
    where f.broken_at is null;
    if not found then
        return;
    end if;
    insert into deferred.__deferred_limit as l (kind, queue, name, tokens, tokens_at)
    values ('function', '', p_fn, 0, clock_timestamp())
    on conflict (kind, queue, name) do update set tokens = 0, tokens_at = excluded.tokens_at;
    text := format('function %s is paused: its last %s crashed; one is tried every %s s', p_fn,
                   case when p_crashed = 1 then 'attempt' else p_crashed || ' attempts' end,
                   round(p_retry_ms / 1000.0));
    remedy := format('deferred ls --fn %s; after the fix: deferred function resume %s', p_fn, p_fn);
    perform deferred.__alert_found('breaker', p_fn, text, remedy);
end
$$;
comment on function deferred.__function_pause is
    'pauses a function whose attempts crash; returns the alert, NULL: it was paused already';
