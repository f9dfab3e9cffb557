-- job_facts: what a job was given besides its function, queue, label and params, as people read it.
-- params: job int8
-- returns: name text, value text, timed bool
-- Rows: one for each that was given. deferred show and the page of the job print them in this
--   order. A name has at most 11 characters. If timed is true, times in the value have their zone.
-- Locks: none. Index: primary keys of __deferred and __deferred_hot, __deferred_hot_key,
--   __deferred_key
select f.name, f.value, f.timed
from deferred.__deferred d
cross join lateral (values
    ('key', d.key, false),
    ('key is', deferred.__key_state(d.id), true),
    ('rule', d.rule, false),
    ('tags', array_to_string(d.tags, ', '), false),
    ('trace', d.traceparent, false),
    ('not before', to_char(d.run_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), true),
    ('expires', to_char(d.expires_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), true),
    ('limits', concat_ws(', ', 'attempts ' || d.max_attempts, 'timeout ' || d.timeout_ms || ' ms',
        'back-off floor ' || d.backoff_floor_ms || ' ms',
        'ceiling ' || d.backoff_ceiling_ms || ' ms', 'exponent ' || d.backoff_exponent,
        coalesce(d.concurrency || ' at once', 'one after the other') || ' with key '
            || quote_literal(d.concurrency_key)), false)) f(name, value, timed)
where d.id = $1::int8 and f.value <> ''
