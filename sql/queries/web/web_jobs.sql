-- web_jobs: jobs of any state, newest first; looks at $12 of them at most.
-- params: queue text, fn text, unused text, rows_max int4, after int8?, label text, key text,
--   rule text, created_by text, since text, until text, look_max int8, part_of_label text,
--   outcome text, tags text[], index_label text
-- returns: as admin_ls_done
-- NULL: any; $5 NULL: from the newest.
-- $6   label or, if $13, a part of it.
-- $12   jobs to look at.
-- $14   outcome of the last attempt.
-- $15   tags: then it looks at $12 jobs that have them, and it must be planned for these tags.
-- $16   label, where "deferred index add label" has made its index: the same.
-- Rows: the columns of admin_ls_hot; the seconds are those until it is due, or since the job ended,
--   negative.
-- Locks: none. Index: primary keys of the partitions of __deferred, from their end, or
--   __deferred_tags, or those of __search_create(). Then as the view deferred.job for each job that
--   may fit: "offset 0" forces these lookups.
select j.id, j.state, j.queue, j.fn, j.label, j.priority::int4, j.attempt,
       deferred.__age_s(j.created_at) as age_s,
       -deferred.__age_s(coalesce(j.finished_at, j.visible_at)) as until_s,
       j.last_outcome, row_to_json(j)::text as json, null::text as held_by, d.may
           and coalesce($14::text is null or j.last_outcome = $14, false) as fits, d.n = $12::int4
           and d.id > (select deferred.__id_since($10::text::timestamptz)) as last
from (select x.id, row_number() over (order by x.id desc) as n,
             coalesce(($1::text is null or x.queue = $1) and ($2::text is null or x.fn = $2)
                      and $3::text is null
                 and ($6::text is null or case when $13::text::bool
                      then strpos(lower(x.label), lower($6)) > 0 else x.label = $6 end)
                 and ($7::text is null or x.key = $7) and ($8::text is null or x.rule = $8)
                 and ($9::text is null or x.created_by = $9)
                 and ($10::text is null or x.created_at >= $10::timestamptz)
                 and ($11::text is null or x.created_at < $11::timestamptz), false) as may
      from (
            (select y.id, y.queue, y.fn, y.label, y.key, y.rule, y.created_by, y.created_at
             from deferred.__deferred y
             where $16::text is null
               and y.id < (select deferred.__id_before($5::int8, $11::text::timestamptz))
               and ($15::text[] is null or y.tags @> $15) order by y.id desc limit $12)
            union all
            (select y.id, y.queue, y.fn, y.label, y.key, y.rule, y.created_by, y.created_at
             from deferred.__deferred y
             where y.label = $16 and hashtextextended(y.label collate "C", 0) is not null
               and (hashtextextended(y.label collate "C", 0),
                    y.id) < (hashtextextended($16 collate "C", 0),
                             (select deferred.__id_before($5::int8, $11::text::timestamptz)))
               and (hashtextextended(y.label collate "C", 0),
                    y.id) >= (hashtextextended($16 collate "C", 0), -9223372036854775808)
               and ($15::text[] is null or y.tags @> $15)
                   order by hashtextextended(y.label collate "C", 0) desc, y.id desc
                   limit $12)) x) d
cross join lateral (select x.* from deferred.job x where x.id = d.id offset 0) j
where (d.may and ($14 is null or j.last_outcome = $14)) or (d.n = $12
      -- Whether it goes on. This is not a bound of the walk: the planner expects few rows in a
      -- range, and would sort them all.
      and d.id > (select deferred.__id_since($10::text::timestamptz)))
order by d.id desc limit $4::int4
