-- schedule_sync: have the schedules of a file be these.
-- params: file text, schedules json, remove text
-- returns: name text, what text, json json
-- $1 name of the file, $2 schedules, each with name, rule, fn, params, opts (json array), $3 remove
--   those that went.
-- rows: a row for each: name, added, changed, unchanged, gone or removed, and both as JSON.
-- locks: the rows of those that change, until the transaction ends
select s.name, s.what, json_build_object('schedule', s.name, 'what', s.what) as json
from deferred.__schedule_sync($1, $2, $3::text::bool) s
