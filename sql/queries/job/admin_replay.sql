-- admin_replay: what an attempt at a job was called with, as far as it is still there.
-- params: job int8, attempt int4
-- returns: fn text?, queue text, label text, params text, timeout_ms int8, created_us int8,
--   ready_us int8, tick_us int8, previous_tick_us int8, traceparent text, attempt int4,
--   plugin text, parents text, steps text
-- $2   number of the attempt. 0: the last one.
-- Rows: no row if there is no such job, else one. Column fn: NULL: it is a message. Columns ending
--   in _us: microseconds since 1970; 0: none. Column attempt: 0: there is no such attempt. Column
--   parents: as of now. Column steps: those that earlier attempts saved, with the values of now.
-- Locks: none. Index: primary keys of __deferred, __deferred_edge and __deferred_step,
--   __deferred_log_job
select d.fn, d.queue, d.label, d.params::text, d.timeout_ms,
       (extract(epoch from d.created_at) * 1000000)::int8 as created_us,
       (extract(epoch from coalesce(l.started_at - l.wait_us * interval '1 microsecond',
                                    d.created_at)) * 1000000)::int8 as ready_us,
       (extract(epoch from d.tick) * 1000000)::int8 as tick_us,
       (extract(epoch from d.previous_tick) * 1000000)::int8 as previous_tick_us,
       d.traceparent, l.attempt, l.plugin,
       (select p.parents from deferred.__parents(array[d.id]) p) as parents,
       (select json_object_agg(s.name, s.value order by s.number)::text
        from deferred.__deferred_step s
        where s.job_id = d.id and s.attempt < l.attempt) as steps
from deferred.__deferred d
left join lateral (
    select x.attempt, x.plugin, x.started_at, x.wait_us from deferred.__deferred_log x
    where x.job_id = d.id and x.attempt > 0 and x.attempt = coalesce(nullif($2::int4, 0), x.attempt)
    order by x.finished_at desc, x.attempt desc limit 1) l on true
where d.id = $1::int8
