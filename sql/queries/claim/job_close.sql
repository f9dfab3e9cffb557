-- job_close: leases of which nothing is in hand any more. One that has ended is left to
-- job_lost.sql: a result that came too late was refused, and its job is held still.
-- params: receipts int8[]
-- returns: nothing
-- Locks: the rows; those locked by others are left, and end by themselves. Index:
--   __deferred_lease_receipt, and never that
-- of expires_at, in which those that a held snapshot keeps would be walked over
delete from deferred.__deferred_lease l
where l.ctid = any (array(select x.ctid from deferred.__deferred_lease x
                          where x.receipt = any ($1::int8[]) and x.expires_at - now() > interval '0'
                          for update skip locked))
