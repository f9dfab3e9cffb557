-- job_facts: what a job was given besides its function, queue, label and params, as people read it.
-- params: job int8
-- returns: name text, value text
-- Rows: one for each that was given. deferred show and the page of the job print them in this
--   order. A name has at most 11 characters. A time ends with its zone.
-- Locks: none. Index: primary keys of __deferred and __deferred_hot, __deferred_hot_key,
--   __deferred_key
select f.name, f.value
from deferred.__deferred d
cross join (select 'YYYY-MM-DD HH24:MI:SS '
            || case current_setting('timezone') when 'UTC' then '"UTC"' else 'TZH:TZM' end) t(form)
cross join lateral (values
    ('key', d.key),
    ('key is', deferred.__key_state(d.id)),
    ('rule', d.rule),
    ('tags', array_to_string(d.tags, ', ')),
    ('trace', d.traceparent),
    ('not before', to_char(d.run_at, t.form)),
    ('expires', to_char(d.expires_at, t.form)),
    ('limits', concat_ws(', ', 'attempts ' || d.max_attempts, 'timeout ' || d.timeout_ms || ' ms',
        'back-off floor ' || d.backoff_floor_ms || ' ms',
        'ceiling ' || d.backoff_ceiling_ms || ' ms', 'exponent ' || d.backoff_exponent,
        coalesce(d.concurrency || ' at once', 'one after the other') || ' with key '
            || quote_literal(d.concurrency_key)))) f(name, value)
where d.id = $1::int8 and f.value <> ''
