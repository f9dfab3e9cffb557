-- web_actions: what operators did, newest first.
-- $1 job (int8, NULL: any), $2 go on after this one (int8, NULL: from the newest), $3 queue, $4 function, $5 schedule (text, NULL: any), $6 flow (int8, NULL: any),
-- $7 without error texts (text: true or false)
-- returns number (int8), when (text), seconds since (int8), who, role, address, verb (text), job (int8), queue, refused, login, function, schedule, settings
--   (text), which jobs, where it was done to many (text), to how many (int8), and flow (int8); 50 rows
--   at most
-- locks: none. Index: primary key of __deferred_action, or the one of what is given
select a.id, to_char(a.at, 'YYYY-MM-DD HH24:MI:SS'), extract(epoch from clock_timestamp() - a.at)::int8, a.who, a.role, a.address, a.verb, a.job_id, a.queue, a.refused, a.login,
       a.fn, a.schedule, a.settings::text, (case when $7::text::bool then a.filter::jsonb - 'error' else a.filter::jsonb end)::text, a.jobs, a.flow
from deferred.__action a
where ($1::int8 is null or a.job_id = $1) and ($2::int8 is null or a.id < $2) and ($3::text is null or a.queue = $3) and ($4::text is null or a.fn = $4)
  and ($5::text is null or a.schedule = $5) and ($6::int8 is null or a.flow = $6)
order by a.id desc limit 50
