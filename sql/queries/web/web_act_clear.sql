-- web_act_clear: clear some of a queue.
-- params: queue text, typed text, first_id int8?, last_id int8?, who text, address text
-- returns: jobs int8, refused text?, next_id int8?, upto int8?
-- $3, $4: where to begin and to end; NULL: at the first job, at the newest
-- Rows: one row. refused: why it was not done. The last two are $3 (NULL: that was all) and $4 of
--   the next step
-- Locks: the rows. Index: primary key of __deferred_hot
select a.jobs, a.refused, a.next_id, a.upto from deferred.__act_clear($1::text, $2::text, $3::int8,
    $4::int8, $5::text, $6::text) a
