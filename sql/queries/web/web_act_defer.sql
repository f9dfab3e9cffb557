-- web_act_defer: defer a job.
-- params: fn text, params text, opts json, who text, address text
-- returns: job int8?, refused text?
-- $1 function, $2 params, as they were typed, $3 options, an object, $4 who, $5 address.
-- rows: one row: its id (NULL: there is none), why not (NULL: it was deferred).
-- locks: those of deferred.defer()
select a.job, a.refused from deferred.__act_defer($1::text, $2::text, $3::json, $4::text,
                                                  $5::text) a
