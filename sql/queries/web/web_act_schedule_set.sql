-- web_act_schedule_set: store a schedule.
--
-- $1 name, $2 version (NULL: a new one), $3 rule, $4 function (text).
--
-- $5 params as typed (text), $6 options (json).
-- $7 who, $8 address (text)
--
-- returns one row: why not (text; NULL: it is set)
-- locks: the row of the schedule
select deferred.__act_schedule_set($1::text, $2::text, $3::text, $4::text, $5::text, $6::json,
    $7::text, $8::text)
