-- session_setup: settings of one transaction of a worker, sent first in each pipeline. They are
-- local to the transaction, so that nothing leaks to others behind a pooler. jit off: compiling
-- costs more than these statements (72 against 3,100 jobs/s on a fresh table); no sequential scans
-- or hash joins: right after the table was emptied or filled the planner's statistics are wrong,
-- and the index paths are the right ones at any size; no sorts, or an index that does not hold the
-- order may look as good as the one that does (165 ms a claim instead of 4). And no join to the hot
-- table by "h.id = r.id", but by "h.id = any (array[r.id])", which says the same and can be done
-- one way only: each r looked up by the index. With the first the planner may as well walk the
-- whole index and compare each of its rows with all r, and does where it believes the table to have
-- few rows, or few that are claimed: 146 us a job instead of 26.
-- params: statement_timeout text
-- returns: ignored
select set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('search_path', 'pg_catalog, pg_temp', true),
       set_config('lock_timeout', '1s', true), set_config('statement_timeout', $1::text, true)
