-- admin_times: two moments, each given as a timestamp, or as a time before now.
-- params: since text, since_ms int8?, until text, until_ms int8?
-- returns: since text?, until text?
-- $1, $3 timestamps; $2, $4 milliseconds before now; NULL: not given
-- Locks: none. Index: none
select coalesce($1::text::timestamptz, now() - $2::int8 * interval '1 millisecond')::text as since,
       coalesce($3::text::timestamptz, now() - $4::int8 * interval '1 millisecond')::text as until
