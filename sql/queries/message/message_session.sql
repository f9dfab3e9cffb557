-- message_session: settings of a session that sends the message_...sql statements, besides those of
-- session_pin.sql. No sequential scans, hash or merge joins: right after a table was emptied or
-- filled the planner's statistics are wrong, and the index paths are the right ones at any size.
-- One plan for all arrays. synchronous_commit is at least on: a client that was told that its
-- message is stored may rely on that.
-- params: none
-- returns: ignored
-- locks: none
select set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
       set_config('enable_mergejoin', 'off', false), set_config('enable_bitmapscan', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('lock_timeout', '5s', false), set_config('statement_timeout', '30s', false),
       set_config('synchronous_commit', case current_setting('synchronous_commit')
           when 'off' then 'on' else current_setting('synchronous_commit') end, false)
