-- doctor_clock: the server's clock.
-- params: none
-- returns: now_us int8, behind_us int8?
-- Rows: one row. The lag is behind the latest time at which a job was deferred
-- Locks: none. Index: primary key of __deferred, the newest 100 jobs
select (extract(epoch from clock_timestamp()) * 1000000)::int8 as now_us,
       (select (extract(epoch from max(n.created_at) - clock_timestamp()) * 1000000)::int8
        from (select d.created_at from deferred.__deferred d order by d.id desc
              limit 100) n) as behind_us
