-- top_arrivals: jobs that arrived in the last minute, in 5, in 15, as far as the newest 5,000 tell;
-- and the time.
-- params: queue text
-- returns: arrived_1 int8, arrived_5 int8, arrived_15 int8, more bool, as_of text, workers int8,
--   json text
-- Rows: one row. more: the last 15 minutes have more than were counted
-- Locks: none. Index: primary key of __deferred, __deferred_worker_alive
with newest as materialized (
    select d.created_at, d.queue from deferred.__deferred d order by d.id desc limit 5000),
figures as (
    select to_char(clock_timestamp(), 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as as_of,
           (select count(*) from deferred.__deferred_worker w where w.ended_at is null) as workers,
           count(*) filter (where n.created_at > now() - interval '1 min') as arrived_1,
           count(*) filter (where n.created_at > now() - interval '5 min') as arrived_5,
           count(*) filter (where n.created_at > now() - interval '15 min') as arrived_15,
           (select count(*) = 5000 and min(x.created_at) > now() - interval '15 min'
            from newest x) as more
    from newest n where $1::text is null or n.queue = $1)
select f.arrived_1, f.arrived_5, f.arrived_15, f.more, f.as_of, f.workers,
       row_to_json(f)::text as json from figures f
