-- session_own: the settings that session_setup.sql made for this transaction hold for the session.
-- Only where no pooler shares it; there, this spares each later transaction session_setup.sql.
-- params: none
-- returns: ignored
-- Locks: none
select set_config(n, current_setting(n), false)
from unnest(array['jit', 'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin',
                  'enable_bitmapscan', 'enable_sort',
                  'plan_cache_mode', 'search_path', 'lock_timeout', 'statement_timeout']) n
