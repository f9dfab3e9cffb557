-- message_session: settings of a session that sends the message_...sql statements, besides those of
-- session_pin.sql. Sequential scans, hash and merge joins are off, because the statistics are wrong
-- right after a table was emptied or filled. Index paths are right at any size. All arrays share
-- one plan. Setting synchronous_commit is at least on, so that a message is durable once its client
-- has the answer.
-- params: none
-- returns: ignored
-- Locks: none.
select set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
       set_config('enable_mergejoin', 'off', false), set_config('enable_bitmapscan', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('lock_timeout', '5s', false), set_config('statement_timeout', '30s', false),
       set_config('synchronous_commit', case current_setting('synchronous_commit')
           when 'off' then 'on' else current_setting('synchronous_commit') end, false)
