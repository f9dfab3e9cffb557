-- web_act_flow: do it to a flow.
-- params: verb text, flow int8, before int8?, who text, address text
-- returns: jobs int8?, refused text?, next int8?
-- $1 verb: retry, cancel; $2 flow, $3 the jobs before this one (NULL: all), $4 who, $5 address.
-- rows: one row: how many jobs were cancelled (NULL: none was to be), why it was not done (NULL: it
--   was), what to give as $3 to go on (NULL: that was all).
-- locks: as flow_cancel.sql and flow_retry.sql
select a.jobs, a.refused, a.next from deferred.__act_flow($1::text, $2::int8, $3::int8, $4::text,
    $5::text) a
