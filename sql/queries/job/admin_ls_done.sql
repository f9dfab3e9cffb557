-- admin_ls_done: jobs that ended well, newest first; looks at the newest 10,000 jobs only.
-- params: queue text, fn text, state text, rows_max int4, after int8?, label text, key text,
--   rule text, created_by text, since text, until text, tags text[], index_label text,
--   ended_since text, ended_until text
-- returns: id int8, state text, queue text, fn text, label text, priority int4, attempt int4,
--   age_s int8, until_s int8, last_outcome text, json text, held_by text?, fits bool, last bool
-- NULL: any; $5 NULL: from the beginning. $13 label, where "deferred index add label" has made its
--   index.
-- Rows: the columns of admin_ls_hot; the seconds are those since the job ended, negative.
-- Locks: none. Index: __deferred_tags, where tags are given, that of __search_create() by $13,
--   __deferred_log_job. Then as the view deferred.job for each job: "offset 0" forces these
--   lookups.
select j.id, j.state, j.queue, j.fn, j.label, j.priority::int4, j.attempt,
       deferred.__age_s(j.created_at) as age_s,
       -deferred.__age_s(j.finished_at) as until_s,
       j.last_outcome, row_to_json(j)::text as json, j.held_by, f.fits, l.n = 10000 as last
from (select x.job_id, row_number() over (order by x.job_id desc) as n
      from deferred.__deferred_log x where x.final and x.outcome = 'ok'
          and x.job_id < (select deferred.__id_before($5::int8, $15::text::timestamptz))
        and ($12::text[] is null
             or x.job_id = any (array(select d.id from deferred.__deferred d where d.tags @> $12)))
        and ($13::text is null or x.job_id = any (array(select d.id from deferred.__deferred d
            where hashtextextended(d.label collate "C", 0) = hashtextextended($13 collate "C", 0)
              and d.label = $13)))
      order by x.job_id desc limit 10000) l
cross join lateral (select x.*, null::text as held_by from deferred.job x
                    where x.id = l.job_id offset 0) j
cross join lateral (
    select coalesce(j.state = $3::text and ($1::text is null or j.queue = $1)
                    and ($2::text is null or j.fn = $2)
           and ($6::text is null or j.label = $6) and ($7::text is null or j.key = $7)
           and ($8::text is null or j.rule = $8)
           and ($9::text is null or j.created_by = $9)
           and ($10::text is null or j.created_at >= $10::timestamptz)
           and ($11::text is null or j.created_at < $11::timestamptz)
           and ($14::text is null or j.finished_at >= $14::timestamptz)
           and ($15 is null or j.finished_at < $15::timestamptz), false) as fits) f
where f.fits or l.n = 10000
order by l.job_id desc limit $4::int4
