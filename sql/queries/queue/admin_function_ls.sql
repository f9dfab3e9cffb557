-- admin_function_ls: functions that have limits, or something deferred for each dead job.
-- params: fn text
-- returns: fn text, running int8, max_running int4?, rate float8?, burst int4?, paused_s int8?,
--   json text, on_dead text?
-- $1 NULL: all
-- Rows: paused_s is the time since the breaker paused it; NULL: it did not
-- Locks: none. Index: primary keys of __deferred_function, __deferred_limit and __deferred_hot
with figures as (
    select coalesce(f.name, o.name) as fn, r.running, f.max_running, f.rate, f.burst,
           deferred.__age_s(f.broken_at) as paused_s, o.fn as on_dead
    from deferred.__deferred_function f
    full join (select x.name, x.fn from deferred.__deferred_on_dead x where x.kind = 'function') o
        on o.name = f.name
    cross join lateral (
        select count(h.id) as running
        from deferred.__deferred_limit l cross join lateral unnest(l.running) i
        join deferred.__deferred_hot h on h.id = i and h.worker is not null
        where l.kind = 'function' and l.queue = '' and l.name = f.name) r
    where $1::text is null or coalesce(f.name, o.name) = $1)
select f.fn, f.running, f.max_running, f.rate, f.burst, f.paused_s, row_to_json(f)::text as json,
       f.on_dead from figures f order by f.fn
