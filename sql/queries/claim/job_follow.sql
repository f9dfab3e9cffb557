-- job_follow: defer the calls that a successful attempt asked for, if that attempt is still the
-- owner. Sent before job_finish in the same transaction.
-- params: job int8, receipt int8, fn text, params json, opts json
-- returns: job_id int8
-- $1 id and $2 receipt of the job that asks.
-- $5   opts or NULL; flow true: that of the job that asks.
-- Rows: one row: id of the new job; none if the receipt is not valid.
-- Locks: the hot row of the job that asked.
with owner as materialized (
    select h.id from deferred.__deferred_hot h
    where h.id = $1::int8 and exists (select from deferred.__deferred_lease l
                                      where l.receipt = $2::int8
                                        and l.expires_at - now() > interval '0'
                                        and pg_visible_in_snapshot(h.xid, l.snap))
    for update)
select deferred.defer($3::text, $4::json, case when $5::json->>'flow' = 'true'
                                                   then ($5::jsonb || jsonb_build_object('flow',
                                                       o.id))::json else $5::json end) as job_id
                                                           from owner o
