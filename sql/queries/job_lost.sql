-- job_lost: jobs whose lease has ended without a result are ready again.
-- $1 default of max_attempts, int4
-- returns one row: number of jobs (int8)
-- locks: those leases and their hot rows; those locked by others are left to them. Index: __deferred_lease_expires
select case when exists (select from deferred.__deferred_lease l where l.expires_at < now())
       then (select count(*) from deferred.__lost(null, 'lost', $1::int4)) else 0 end
