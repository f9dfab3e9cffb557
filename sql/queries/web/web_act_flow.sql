-- web_act_flow: do it to a flow.
-- params: verb text, flow int8, before int8?, who text, address text
-- returns: jobs int8?, refused text?, next int8?
-- $3 NULL: all
-- Rows: one row. refused: why it was not done. The last is $3 of the next step; NULL: that was all
-- Locks: as admin_flow_cancel.sql and admin_flow_retry.sql
select a.jobs, a.refused, a.next from deferred.__act_flow($1::text, $2::int8, $3::int8, $4::text,
    $5::text) a
