-- spans_now: from when to when spans are to be read.
-- $1 since when (text, NULL: so long ago) $2 milliseconds (int8)
-- returns one row: since, now (timestamptz), who asks may read errors (bool)
-- locks: none
select coalesce($1::text::timestamptz, clock_timestamp() - $2::int8 * interval '1 millisecond'), clock_timestamp(),
       has_column_privilege('deferred.__deferred_log', 'error', 'select')
