-- web_act_event: send an event for which a job waits.
-- params: job int8, event text, payload text, who text, address text
-- returns: refused text?
-- $3 JSON as it was typed; empty: none.
-- Rows: one row: why it was not done; NULL: it was
-- Locks: none but of what it adds
select deferred.__act_event($1::int8, $2::text, $3::text, $4::text, $5::text) as refused
