-- admin_retry_some: retry the next 1,000 jobs that fit a filter, in one transaction.
-- params: state text, queue text, fn text, label text, key text, rule text, created_by text,
--   since text, until text, tags text[], after text, dry int4, error text, user text,
--   ended_since text, ended_until text, from_start int4
-- returns: as admin_cancel_some
-- $1 dead, cancelled, expired or delayed; NULL: dead or delayed.
-- $2 to $10, $13, $15, $16 NULL: any.
-- $11   NULL: from the beginning.
-- $12   1: only count.
-- $13   first line of its error, numbers as #.
-- $17   1: their steps are deleted.
-- Rows: one row: jobs done, jobs refused, why the first of them was, where to go on; NULL: that was
--   all.
-- Locks: the hot rows of these jobs. Index: __deferred_tags, __deferred_log_ended, primary key of
--   __deferred_hot, then for each job as the view deferred.job and as deferred.retry().
select s.done, s.refused, s.why, s.after::text,
       case when $12::int4 = 0 and s.done + s.refused > 0
                then deferred.__act_note($14::text || ': deferred retry', 'retry',
                                         filter => f.filter, jobs => s.done,
            refused => case when s.refused > 0 then format('%s jobs: %s', s.refused,
                s.why) end) end as noted
from (select json_build_object('state', $1::text, 'queue', $2::text, 'fn', $3::text, 'label',
                               $4::text, 'key', $5::text, 'rule', $6::text, 'by', $7::text, 'since',
                               $8::text,
                               'until', $9::text, 'tags', $10::text[], 'error',
                               $13::text, 'ended_since', $15::text, 'ended_until',
                               $16::text, 'from_start',
                               case when $17::int4 = 1 then true end) as filter offset 0) f
cross join lateral deferred.__retry_some($1::text, f.filter, $11::text::json, $12::int4 = 1, 1000) s
