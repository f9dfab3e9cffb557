-- web_act_clear: clear some of a queue.
-- $1 queue, $2 its name as it was typed (text), $3 where to begin, $4 where to end (int8; NULL: at the first job, at the newest), $5 who, $6 address (text)
-- returns one row: how many jobs were cancelled (int8), why it was not done (text; NULL: it was), what to give as $3 (int8; NULL: that was all) and as $4 (int8) to go on
-- locks: the rows. Index: primary key of __deferred_hot
select a.jobs, a.refused, a.next_id, a.upto from deferred.__act_clear($1::text, $2::text, $3::int8, $4::int8, $5::text, $6::text) a
