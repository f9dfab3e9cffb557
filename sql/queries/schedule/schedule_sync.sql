-- schedule_sync: have the schedules of a file be these.
-- params: file text, schedules json, remove text
-- returns: name text, what text, json json
-- $2 JSON array of name, rule, fn, params, opts. $3 true: remove those that are gone from the file.
-- Rows: one for each schedule: added, changed, unchanged, gone or removed.
-- Locks: the rows of those that change, until the transaction ends.
select s.name, s.what, json_build_object('schedule', s.name, 'what', s.what) as json
from deferred.__schedule_sync($1, $2, $3::text::bool) s
