-- job_next_due: how long until the next delayed job is due, or the pause of a queue ends? A service
-- sleeps no longer than that.
-- And where to begin to look for those that are.
-- params: from timestamptz, worker int8
-- returns: wait_ms int8, due_at timestamptz?, now timestamptz, took_us int8, tick_ms int8?,
--   lease_ms int8?
-- $1 looked for from then on, as $2 of job_promote.sql; $2 our worker id.
-- Rows: one row. Column wait_ms: milliseconds, rounded up. 0: a job is due already, or none is
--   delayed. Column due_at: when the first job is or was due (NULL: none). Column took_us:
--   microseconds that finding it took. Column tick_ms: milliseconds, rounded up, until one of these
--   (NULL: none). A tick of a schedule is due, or a flow is to be retried. Or the end of a
--   job whose row was locked is to be passed on, or the time limit of an event passes. 0: a tick is
--   due, or an end is to be passed on at once. Column lease_ms: milliseconds until the next lease
--   of another worker ends, unless it is renewed (NULL: no lease).
-- Locks: none. Index: __deferred_hot_delayed, __deferred_queue_paused_until,
--   __deferred_lease_expires, primary key of __deferred_ended_cursor, __deferred_ended_order,
--   __deferred_flow_retry_wanted.
select greatest(0, ceil(extract(epoch from n.due_at - clock_timestamp()) * 1000))::int8 as wait_ms,
       n.due_at, now(),
       (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000)::int8 as took_us,
       (select case when u.at = timestamptz '-infinity' then 0
                    else least(case when s.next_tick < timestamptz 'infinity'
                                        then greatest(0, ceil(extract(epoch
                                            from s.next_tick - clock_timestamp()) * 1000)) end,
                               case when u.at > timestamptz '-infinity'
                                        then greatest(100, ceil(extract(epoch
                                            from u.at - clock_timestamp()) * 1000)) end) end::int8
        from (select min(x.next_tick) as next_tick from deferred.__deferred_state x) s
        cross join (select least(case when pg_relation_size('deferred.__deferred_ended'::regclass)
                                           + pg_relation_size(
                                               'deferred.__deferred_awaited'::regclass)
                                           > 0 then deferred.__settle_due() end,
                                 (select min(r.not_before) from deferred.__deferred_flow_retry r
                                  where r.ended_at is null)) as at offset 0) u) as tick_ms,
       (select ceil(extract(epoch from l.expires_at - clock_timestamp()) * 1000)::int8 + 1
        from deferred.__deferred_lease l where l.expires_at > clock_timestamp()
            and l.worker <> $2::int8 order by l.expires_at limit 1) as lease_ms
from (select (select h.due_at from deferred.__deferred_hot h
              where h.due_at < timestamptz 'infinity' and h.fn is not null
                and h.due_at >= $1::timestamptz
              order by h.due_at limit 1) as delayed_to,
             (select min(q.paused_until) from deferred.__deferred_queue q
              where q.paused_until > clock_timestamp()) as paused_to) d
cross join lateral (select least(d.delayed_to, d.paused_to) as due_at) n
