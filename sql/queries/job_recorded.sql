-- job_recorded: which of these claims have their row in the log? Asked after the answer to a commit was lost.
-- $1 id int8[], $2 receipt int8[]
-- returns one row for each recorded claim: id (int8)
-- locks: none. Index: __deferred_log_job
select r.id from unnest($1::int8[], $2::int8[]) as r(id, receipt)
where exists (select from deferred.__deferred_log l where l.job_id = r.id and l.receipt = r.receipt)
