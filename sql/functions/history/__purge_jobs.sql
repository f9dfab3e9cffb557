-- Part of "deferred purge": deletes jobs at and above id, in order of id. They are past the limit,
-- not hot, and have no log row left. Partitions in `but` are deleted as a whole. If next_id is
-- NULL, no further job is old enough.
create or replace function deferred.__purge_jobs(older_than interval, from_id bigint, batch integer,
                                                 but text[] default '{}',
    out purged bigint, out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_cutoff timestamptz := clock_timestamp() - older_than;
    v_but    oid[] := array(select c.oid from pg_class c
                            where c.relnamespace = 'deferred'::regnamespace
                              and c.relname = any (but));
begin
    with seen as materialized (
        select d.id, d.created_at from deferred.__deferred d where d.id >= from_id order by d.id
        limit batch),
    gone as (
        delete from deferred.__deferred d using seen s
        where d.id = s.id and s.created_at < v_cutoff and d.tableoid <> all (v_but)
          and not exists (select from deferred.__deferred_hot h where h.id = d.id)
          and not exists (select from deferred.__deferred_log l where l.job_id = d.id)
        returning d.id),
    edge as (
        delete from deferred.__deferred_edge e using gone g where e.child = g.id),
    awaited as (
        delete from deferred.__deferred_awaited a using gone g where a.child = g.id),
    -- Of a job that was cancelled while it waited.
    wait as (
        delete from deferred.__deferred_wait w
        where w.id in (select x.id from deferred.__deferred_wait x join gone g on g.id = x.id
                       for update of x skip locked)),
    step as (
        delete from deferred.__deferred_step s using gone g where s.job_id = g.id),
    member as (
        delete from deferred.__deferred_member m using gone g where m.job = g.id)
    select (select count(*) from gone),
           (select max(id) + 1 from seen having bool_or(seen.created_at < v_cutoff))
    into purged, next_id;
end
$$;
grant execute on function deferred.__purge_jobs to deferred_purger;
