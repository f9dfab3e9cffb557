-- web_actions: what operators did, newest first.
-- params: job int8?, before int8?, queue text, fn text, schedule text, flow int8?, no_errors text
-- returns: id int8, at text, age_s int8, who text, role text, address text, verb text,
--   job_id int8?, queue text?, refused text?, login text, fn text?, schedule text?, settings text?,
--   filter text?, jobs int8?, flow int8?
-- NULL: any; $2 NULL: from the newest. $7 true: without error texts
-- Rows: at most 50
-- Locks: none. Index: primary key of __deferred_action, or the one of what is given
select a.id, to_char(a.at, 'YYYY-MM-DD HH24:MI:SS') as at,
       deferred.__age_s(a.at) as age_s, a.who, a.role, a.address,
       a.verb, a.job_id, a.queue, a.refused, a.login,
       a.fn, a.schedule, a.settings::text,
       (case when $7::text::bool then a.filter::jsonb - 'error' else a.filter::jsonb end)::text,
       a.jobs, a.flow
from deferred.__action a
where ($1::int8 is null or a.job_id = $1) and ($2::int8 is null or a.id < $2)
  and ($3::text is null or a.queue = $3) and ($4::text is null or a.fn = $4)
  and ($5::text is null or a.schedule = $5) and ($6::int8 is null or a.flow = $6)
order by a.id desc limit 50
