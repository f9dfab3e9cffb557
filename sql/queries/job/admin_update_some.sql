-- admin_update_some: change the next 1,000 jobs that fit a filter, in one transaction.
-- params: state text, queue text, fn text, label text, key text, rule text, created_by text,
--   since text, until text, tags text[], after text, dry int4, changes text, user text,
--   ended_since text, ended_until text
-- returns: as admin_cancel_some
-- $1 ready, delayed or waiting. $1 to $10, $15, $16 NULL: any.
-- $11   NULL: from the beginning.
-- $12   1: only count.
-- $13   JSON, as deferred.update() takes it.
-- Rows: one row: jobs done, jobs refused, why the first of them was, where to go on; NULL: that was
--   all.
-- Locks: the hot rows of these jobs. Index: __deferred_tags, primary key of __deferred_hot, then
--   for each job as the view deferred.job and as deferred.update().
select s.done, s.refused, s.why, s.after::text,
       case when $12::int4 = 0 and s.done + s.refused > 0
                then deferred.__act_note($14::text || ': deferred update', 'update',
                                         settings => deferred.__update_noted($13::json),
                                         filter => f.filter, jobs => s.done,
            refused => case when s.refused > 0 then format('%s jobs: %s', s.refused,
                s.why) end) end as noted
from (select json_build_object('state', $1::text, 'queue', $2::text, 'fn', $3::text, 'label',
                               $4::text, 'key', $5::text, 'rule', $6::text, 'by', $7::text, 'since',
                               $8::text, 'until', $9::text, 'tags', $10::text[],
                               'ended_since', $15::text, 'ended_until', $16::text) as filter
      offset 0) f
cross join lateral deferred.__update_some($1::text, f.filter, $13::text::json, $11::text::json,
                                          $12::int4 = 1, 1000) s
