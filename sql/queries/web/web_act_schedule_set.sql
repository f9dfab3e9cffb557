-- web_act_schedule_set: store a schedule.
-- params: name text, version text, rule text, fn text, params text, opts json, who text,
--   address text
-- returns: refused text?
-- version NULL: a new schedule. params: as typed. refused: why not (NULL: it is set).
-- Locks: the row of the schedule
select deferred.__act_schedule_set($1::text, $2::text, $3::text, $4::text, $5::text, $6::json,
    $7::text, $8::text) as refused
