-- web_job_form: the values in the form of a job.
-- params: job int8, chars_max int4
-- returns: key text, value text
-- Rows: a row for each field: its name, its value. Two are not fields: "fn" and "by" are the
--   function and the role that deferred the job. Params longer than $2 have no row.
-- Locks: none. Index: primary keys of the partitions of __deferred
select f.key, f.value
from deferred.__deferred d
cross join lateral jsonb_each_text(jsonb_strip_nulls(jsonb_build_object(
    'queue', d.queue, 'label', d.label, 'priority', d.priority, 'max_attempts', d.max_attempts,
    'timeout', case when d.timeout_ms % 60000 = 0 then d.timeout_ms / 60000 || 'min'
                    when d.timeout_ms % 1000 = 0 then d.timeout_ms / 1000 || 's'
                    else d.timeout_ms || 'ms' end, 'fn', coalesce(d.fn, ''), 'by', d.created_by,
    'params', case when length(d.params::text) <= $2::int4 then d.params::text end))) f
where d.id = $1::int8
