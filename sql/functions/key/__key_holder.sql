-- The job that holds a key; no row: the key is free. A job may come twice. Column until: infinity,
-- or how long after the end of the job. p_now: the moment of the call.
-- Column expired: the job waits and will never run.
create or replace function deferred.__key_holder(p_queue text, p_own_key text,
    p_now timestamptz default clock_timestamp())
returns table (id bigint, until timestamptz, expired boolean, by_start boolean)
language sql stable rows 1
as $$
    select u.id, u.until,
           coalesce(h.expires_at <= clock_timestamp() and not deferred.__is_claimed(h), false),
           u.by_start
    from (select h.id, 'infinity' as until, d.key_until_ms is not distinct from 0 as by_start
          from deferred.__deferred_hot h left join deferred.__deferred d on d.id = h.id
          where h.queue = $1 and h.key = $2
            and not (d.key_until_ms is not distinct from 0 and deferred.__key_started(h))
          union all
          select k.job_id, k.held, k.key_until_ms is not distinct from 0
          from (select k.*, deferred.__key_held(k) as held from deferred.__deferred_key k
                where k.queue = $1 and k.key = $2) k
          where k.held > $3) u
    left join deferred.__deferred_hot h on h.id = u.id
$$;
comment on function deferred.__key_holder is 'the job that holds a key';
grant execute on function deferred.__key_holder to deferred_worker;
