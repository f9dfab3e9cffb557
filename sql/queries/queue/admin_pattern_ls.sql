-- admin_pattern_ls: patterns, the settings that queues take from them, and how many queues do.
-- params: none
-- returns: pattern text, settings text, queues int8, json text
-- Rows: one for each pattern
-- Locks: none. Index: none; all of __deferred_queue
select p.pattern,
       coalesce((select string_agg(s.key || ' ' || s.value, ', ' order by s.key)
                 from jsonb_each_text(p.settings) s), '') as settings,
       n.queues,
       json_build_object('pattern', p.pattern, 'settings', p.settings, 'queues', n.queues,
                         'created_at', p.created_at)::text as json
from deferred.__deferred_pattern p
cross join lateral (select count(*) as queues from deferred.__deferred_queue q
                    where q.pattern = p.pattern and q.removed_at is null) n
order by p.pattern
