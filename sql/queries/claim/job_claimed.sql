-- job_claimed: what is to be known of the claim before it in this transaction, beside its jobs.
-- $1 queues served, text[]; NULL: all
-- returns one row: a lane was locked by another claim, and nothing was taken (bool); microseconds spent on lanes that had nothing, and on finding
--   lanes (int8); there may be jobs for job_claim_limited.sql too (bool); ready jobs that it left,
--   at least, as far as it looked (int8); it stopped because it had put so many apart, and asking again at once makes sense (bool);
--   the round, for $14 of job_claim.sql (text; NULL: it is over, or it goes on where it was, if the
--   column before is true)
-- locks: none
select current_setting('deferred.claim_lock') = 'busy', (extract(epoch from current_setting('deferred.claim_look')::interval) * 1000000)::int8,
       deferred.__limited_jobs($1::text[]), current_setting('deferred.claim_waiting')::int8, current_setting('deferred.claim_spare')::int4 <= 0,
       case when current_setting('deferred.claim_spare')::int4 > 0
            then nullif(current_setting('deferred.claim_round'), '') end
