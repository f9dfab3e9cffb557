-- web_act: do it.
-- $1 verb (text), $2 job (int8, NULL: none), $3 queue (text, NULL: none), $4 who, $5 address (text)
-- returns one row: why it was not done (text, NULL: it was)
-- locks: those of deferred.__act()
select deferred.__act($1::text, $2::int8, $3::text, $4::text, $5::text)
