-- web_act_defer: defer a job.
-- $1 function, $2 params, as they were typed (text), $3 options, an object (json), $4 who, $5 address (text)
-- returns one row: its id (int8; NULL: there is none), why not (text; NULL: it was deferred)
-- locks: those of deferred.defer()
select a.job, a.refused from deferred.__act_defer($1::text, $2::text, $3::json, $4::text, $5::text) a
