-- spans_now: from when to when spans are to be read.
-- params: since text, since_ms int8
-- returns: since timestamptz, now timestamptz, may_read bool
-- $1 NULL: $2 ago
-- Rows: one row. may_read: the role may read errors
-- Locks: none
select coalesce($1::text::timestamptz,
                clock_timestamp() - $2::int8 * interval '1 millisecond') as since,
                clock_timestamp() as now,
       has_column_privilege('deferred.__deferred_log', 'error', 'select') as may_read
