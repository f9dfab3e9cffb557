-- web_act: do it.
-- params: verb text, job int8?, queue text, who text, address text, fn text, schedule text,
--   settings json
-- returns: refused text?
-- One of $2, $3, $6 and $7 is not NULL.
-- Rows: one row: why it was not done; NULL: it was
-- Locks: those of deferred.__act()
select deferred.__act($1::text, $2::int8, $3::text, $4::text, $5::text, $6::text, $7::text,
                      $8::json) as refused
