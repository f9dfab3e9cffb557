-- web_act_clear: clear some of a queue.
-- params: queue text, typed text, first_id int8?, last_id int8?, who text, address text
-- returns: jobs int8, refused text?, next_id int8?, upto int8?
-- $1 queue, $2 its name as it was typed, $3 where to begin, $4 where to end (NULL: at the first
--   job, at the newest), $5 who, $6 address.
-- rows: one row: how many jobs were cancelled, why it was not done (NULL: it was), what to give as
--   $3 (NULL: that was all) and as $4 to go on.
-- locks: the rows. Index: primary key of __deferred_hot
select a.jobs, a.refused, a.next_id, a.upto from deferred.__act_clear($1::text, $2::text, $3::int8,
    $4::int8, $5::text, $6::text) a
