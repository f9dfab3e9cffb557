-- admin_time: a moment, given as a timestamp or as a time before now.
-- params: text text, ms int8?
-- returns: time text?
-- $1 timestamp; $2 milliseconds before now, if $1 is NULL
-- Locks: none. Index: none
select coalesce($1::text::timestamptz, now() - $2::int8 * interval '1 millisecond')::text as time
