-- web_act_update: change a job that has not been claimed.
-- params: job int8, params text, changes text, who text, address text
-- returns: refused text?
-- $2 as typed; NULL: as they are. $3 JSON, as deferred.update() takes it.
-- Rows: one row: why it was not done; NULL: it was
-- Locks: those of deferred.update()
select deferred.__act_update($1::int8, $2::text, $3::text::json, $4::text, $5::text) as refused
