-- session_setup: settings of one transaction of a worker, sent first in each pipeline. They are
-- local to the transaction, so that nothing leaks to others behind a pooler. JIT is off, because
-- compiling costs more than these statements: 72 against 3,100 jobs/s on a fresh table. Sequential
-- scans and hash joins are off, because the statistics are wrong right after the table was emptied
-- or filled. Index paths are right at any size. Sorts are off: otherwise an index without the order
-- may look as good as the one with it (165 ms a claim instead of 4). Statements join the hot table
-- by "h.id = any (array[r.id])", not by "h.id = r.id". Both mean the same, but the first can only
-- look up each r by the index. With the second the planner may walk the whole index and compare
-- each row with all r. It does so if it expects few rows, or few claimed ones: 146 us a job instead
-- of 26.
-- params: statement_timeout text
-- returns: ignored
select set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('search_path', 'pg_catalog, pg_temp', true),
       set_config('lock_timeout', '1s', true), set_config('statement_timeout', $1::text, true)
