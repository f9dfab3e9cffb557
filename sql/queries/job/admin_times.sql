-- admin_times: two moments, each given as a timestamp, or as a time before now.
-- $1 timestamp (text), $2 milliseconds (int8), $3, $4 the same of the other; NULL: not given
-- returns one row: both moments (text, NULL: not given)
-- locks: none. Index: none
select coalesce($1::text::timestamptz, now() - $2::int8 * interval '1 millisecond')::text,
       coalesce($3::text::timestamptz, now() - $4::int8 * interval '1 millisecond')::text
