-- web_act_defer: defer a job.
-- params: fn text, params text, opts json, who text, address text
-- returns: job int8?, refused text?
-- Rows: one row: its id, or why there is none
-- Locks: those of deferred.defer()
select a.job, a.refused from deferred.__act_defer($1::text, $2::text, $3::json, $4::text,
                                                  $5::text) a
