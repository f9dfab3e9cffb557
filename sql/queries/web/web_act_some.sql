-- web_act_some: retry or cancel the next 1,000 jobs that fit a filter, or fewer where that takes
-- long.
-- params: verb text, state text, queue text, fn text, label text, key text, rule text,
--   created_by text, since text, until text, tags text[], after text, dry int4, who text,
--   address text, error text, ended_since text, ended_until text
-- returns: done int8, refused int8, why text?, after text?
-- $2 NULL: those the verb is for. $3 to $11, $16 to $18 NULL: any.
-- $12   NULL: at the beginning.
-- $13   1: only count.
-- $16   first line of its error, numbers as #.
-- Rows: one row: jobs done, jobs refused, why the first of them was, where to go on; NULL: that was
--   all.
-- Locks: as admin_retry_some.sql and admin_cancel_some.sql; none where it counts.
select s.done, s.refused, s.why, s.after::text
from deferred.__act_some($1::text, $2::text, json_build_object('queue', $3::text, 'fn', $4::text,
    'label', $5::text, 'key', $6::text, 'rule', $7::text,
                            'by', $8::text, 'since', $9::text, 'until', $10::text, 'tags',
                            $11::text[], 'error', $16::text, 'ended_since', $17::text,
                            'ended_until', $18::text), $12::text::json, $13::int4 = 1,
                            $14::text, $15::text) s
