-- web_actions: what operators did, newest first.
-- $1 job (int8, NULL: any), $2 go on after this one (int8, NULL: from the newest), $3 queue (text, NULL: any)
-- returns number (int8), when (text), seconds since (int8), who, role, address, verb (text), job (int8), queue, refused, login (text); 50 rows at most
-- locks: none. Index: primary key of __deferred_action, or __deferred_action_job, or __deferred_action_queue
select a.id, to_char(a.at, 'YYYY-MM-DD HH24:MI:SS'), extract(epoch from clock_timestamp() - a.at)::int8, a.who, a.role, a.address, a.verb, a.job_id, a.queue, a.refused, a.login
from deferred.__deferred_action a
where ($1::int8 is null or a.job_id = $1) and ($2::int8 is null or a.id < $2) and ($3::text is null or a.queue = $3)
order by a.id desc limit 50
