-- schedule_sync: have the schedules of a file be these.
-- $1 name of the file (text), $2 schedules, each with name, rule, fn, params, opts (json array), $3 remove those that went (bool)
-- returns a row for each: name, added, changed, unchanged, gone or removed (text), and both as JSON
-- locks: the rows of those that change, until the transaction ends
select s.name, s.what, json_build_object('schedule', s.name, 'what', s.what) from deferred.__schedule_sync($1, $2, $3::text::bool) s
