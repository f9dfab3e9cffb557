-- For people: what holds the key of a job by now. NULL: the job has no key.
create or replace function deferred.__key_state(p_id bigint) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select case when d.key is null then null
                when x.id is null then case when h.id is not null
                    then 'free since the first attempt started' else 'free' end
                when x.id <> d.id then format('held by job %s', x.id)
                when x.until < 'infinity'
                then to_char(x.until, '"held until "YYYY-MM-DD HH24:MI:SS TZH:TZM')
                when d.key_until_ms is null then 'held until the job has ended'
                when d.key_until_ms = 0 then 'held until the first attempt starts'
                else format('held until %s after the end of the job',
                            d.key_until_ms * interval '1 millisecond') end
    from deferred.__deferred d
    left join deferred.__deferred_hot h on h.id = d.id
    left join lateral (
        select * from deferred.__key_holder(d.queue, deferred.__own_key(d.created_by, d.key)) y
        where d.key is not null order by y.id = d.id desc limit 1) x on true
    where d.id = p_id
$$;
comment on function deferred.__key_state is 'what holds the key of a job, for people';
grant execute on function deferred.__key_state to deferred_worker, deferred_viewer;
