-- doctor_clock: the server's clock.
-- no parameters
-- returns one row: microseconds since 1970 (int8)
-- locks: none
select (extract(epoch from clock_timestamp()) * 1000000)::int8
