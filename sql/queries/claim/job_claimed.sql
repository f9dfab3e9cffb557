-- job_claimed: what the claim before it in this transaction found, besides jobs.
-- params: queues text[]
-- returns: busy bool, look_us int8, limits bool, waiting int8, more bool, round text?
-- $1 queues served; NULL: all.
-- rows: one row: a lane was locked by another claim, and nothing was taken; microseconds spent on
--   lanes that had nothing, and on finding lanes; there may be jobs for job_claim_limited.sql too;
--   ready jobs that it left, at least, as far as it looked; it stopped because it had put so many
--   apart, and asking again at once makes sense; the round, for $14 of job_claim.sql (NULL: it is
--   over, or it goes on where it was, if the column before is true).
-- locks: none
select current_setting('deferred.claim_lock') = 'busy' as busy,
       (extract(epoch from current_setting('deferred.claim_look')::interval) *
        1000000)::int8 as look_us,
       deferred.__limited_jobs($1::text[]) as limits,
       current_setting('deferred.claim_waiting')::int8 as waiting,
       current_setting('deferred.claim_spare')::int4 <= 0 as more,
       case when current_setting('deferred.claim_spare')::int4 > 0
            then nullif(current_setting('deferred.claim_round'), '') end as round
