-- web_act: do it.
-- $1 verb (text), $2 job (int8), $3 queue (text), $4 who, $5 address (text), $6 function, $7 schedule (text), $8 settings, an object (json); of $2, $3, $6 and $7
--   one is not NULL
-- returns one row: why it was not done (text, NULL: it was)
-- locks: those of deferred.__act()
select deferred.__act($1::text, $2::int8, $3::text, $4::text, $5::text, $6::text, $7::text, $8::json)
