-- job_release: give back claimed jobs that were not started; no attempt has been made.
-- $1 id int8[], $2 receipt int8[]
-- returns one row: number of jobs given back (int8). A lease that has ended does not matter: the receipt tells
--   that nobody has taken the job since
-- locks: the hot rows. Index: primary key of __deferred_hot
with r as materialized (
    select * from unnest($1::int8[], $2::int8[]) as r(id, receipt)),
back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, started_at = null, attempt = h.attempt - 1, visible_at = now(), xid = pg_current_xact_id()
    from r where h.id = r.id and h.receipt = r.receipt
    returning 1)
select count(*) from back
