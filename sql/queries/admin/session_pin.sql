-- session_pin: the settings that our statements and their texts rely on, whatever the role, the
-- database or the server has. Behind a pooler, which shares the session, they hold for the
-- transaction. Nothing is looked up in a search_path before it is set.
-- default_transaction_read_only stays: it fences a server that is no longer the primary.
-- params: pid int4
-- returns: shared bool, value text
-- $1 process that the connection names. Behind a pooler it differs from that of the session.
-- Rows: one per setting: whether a pooler is in between, and the value.
-- Locks: none
select s.shared, pg_catalog.set_config(p.name, p.value, s.shared) as value
from (select $1::pg_catalog.int4 operator(pg_catalog.<>) pg_catalog.pg_backend_pid() as shared) s
cross join (values
    ('search_path', 'pg_catalog, pg_temp'), ('default_transaction_isolation', 'read committed'),
    ('statement_timeout', '0'), ('lock_timeout', '0'), ('transaction_timeout', '0'),
    ('idle_session_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
    ('TimeZone', 'UTC'), ('DateStyle', 'ISO, MDY'), ('IntervalStyle', 'postgres'),
    ('bytea_output', 'hex'), ('extra_float_digits', '1'), ('quote_all_identifiers', 'off'),
    ('standard_conforming_strings', 'on'), ('array_nulls', 'on'), ('transform_null_equals', 'off'),
    ('gin_fuzzy_search_limit', '0'), ('row_security', 'on'), ('client_min_messages', 'notice'),
    ('jit', 'off'), ('plan_cache_mode', 'auto'), ('enable_seqscan', 'on'),
    ('enable_indexscan', 'on'), ('enable_indexonlyscan', 'on'), ('enable_bitmapscan', 'on'),
    ('enable_tidscan', 'on'), ('enable_sort', 'on'), ('enable_incremental_sort', 'on'),
    ('enable_hashagg', 'on'), ('enable_material', 'on'), ('enable_memoize', 'on'),
    ('enable_nestloop', 'on'), ('enable_mergejoin', 'on'), ('enable_hashjoin', 'on')
) p (name, value)
where pg_catalog.current_setting(p.name, true) is not null
