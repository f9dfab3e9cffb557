-- Part of deferred.__spool_store(): stores entries of a spool, all or none. An entry whose UUID is
-- known is stored already, and is skipped. Two drains that store the same entries at once wait for
-- each other here. Both insert in the order of UUIDs, so neither waits for the other in turn.
--
-- A UUID is known for 31 days: deferred.__forget_spooled(). An entry whose UUID is older than 30
-- days is refused, because nobody knows any more whether it is stored. The time of a UUID comes
-- from the clock of the host that made it. So one day is left for clocks that differ.
create or replace function deferred.__spool_some(p_ids uuid[], p_jobs text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_actor name := deferred.__actor();
    v_id    uuid;
    v_new   uuid[];
    v_jobs  json;
begin
    select u.id into v_id
    from (select id, to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint
                                  / 1000.0) as made
          from unnest(p_ids) id) u
    where u.made not between now() - interval '30 days' and now() + interval '1 day' limit 1;
    if found then
        raise exception using errcode = '22008',
            message = format('entry %s is older than 30 days, or from the future', v_id),
            hint = 'nobody knows whether it is stored: look for its job, then deferred spool retry';
    end if;
    with added as (
        insert into deferred.__deferred_spooled (owner, id)
        select v_actor, u.id from unnest(p_ids) u(id) order by u.id
        on conflict do nothing returning id)
    select array_agg(a.id) into v_new from added a;
    if v_new is null then return; end if;
    select array_agg(u.id order by u.n), json_agg(u.job::json order by u.n)
    into v_new, v_jobs
    from unnest(p_ids, p_jobs) with ordinality u(id, job, n)
    where u.id in (select unnest(v_new));
    update deferred.__deferred_spooled s set job_id = d.job_id
    from (select v_new[d.n] as id, d.job_id
          from deferred.defer_many(v_jobs) with ordinality d(job_id, n)) d
    where s.owner = v_actor and s.id = d.id;
end
$$;
comment on function deferred.__spool_some is
    'part of deferred.__spool_store(): stores entries of a spool, all or none';
