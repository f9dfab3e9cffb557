-- web_act_flow: do it to a flow.
-- $1 verb: retry, cancel (text); $2 flow (int8), $3 the jobs before this one (int8; NULL: all), $4 who, $5 address (text)
-- returns one row: how many jobs were cancelled (int8; NULL: none was to be), why it was not done (text; NULL: it was), what to give as $3 to go on (int8; NULL:
--   that was all)
-- locks: as flow_cancel.sql and flow_retry.sql
select a.jobs, a.refused, a.next from deferred.__act_flow($1::text, $2::int8, $3::int8, $4::text, $5::text) a
