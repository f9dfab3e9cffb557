-- doctor_clock: the server's clock.
-- no parameters
-- returns one row: microseconds since 1970 (int8), microseconds that it is behind the latest time at which a job was deferred (int8; NULL: there are none)
-- locks: none. Index: primary key of __deferred, the newest 100 jobs
select (extract(epoch from clock_timestamp()) * 1000000)::int8,
       (select (extract(epoch from max(n.created_at) - clock_timestamp()) * 1000000)::int8
        from (select d.created_at from deferred.__deferred d order by d.id desc limit 100) n)
