-- job_enqueue_may_copy: ask whether the acting role may write the tables itself, so that jobs can
-- be stored by COPY.
-- params: none
-- returns: may_copy bool
-- Locks: none. Index: none.
select has_schema_privilege('deferred', 'usage')
    and has_table_privilege('deferred.__deferred', 'insert')
    and has_table_privilege('deferred.__deferred_hot', 'insert')
    and has_table_privilege('deferred.__deferred_queue', 'select')
    and has_table_privilege('deferred.__deferred_queue', 'insert')
    and has_table_privilege('deferred.__deferred_grant', 'select')
    and has_table_privilege('deferred.__deferred_function', 'select')
    and has_sequence_privilege('deferred.__deferred_id_seq', 'usage')
    and has_function_privilege('deferred.__actor()', 'execute')
    and has_function_privilege('deferred.__wake(text)', 'execute') as may_copy
