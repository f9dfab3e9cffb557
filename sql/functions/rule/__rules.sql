-- The rules one may run; for viewers all of them, without query, params and errors of those of
-- others.
create or replace function deferred.__rules() returns setof deferred.__deferred_rule
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select r.id, r.name, case when m.mine then r.query end, r.fn,
           case when m.mine then r.params end, r.key_column, r.queue, r.priority, r.opts,
           r.owner, r.search_path, r.statement_timeout_ms, r.created_at, r.last_run_at,
           r.last_run_ms, r.last_run_by, r.last_queued,
           r.last_skipped, r.last_failed, case when m.mine then r.last_error end
    from deferred.__deferred_rule r
    cross join lateral (select deferred.__rule_is_mine(r.owner) as mine) m
    where m.mine or pg_has_role(deferred.__actor(), 'deferred_viewer', 'member')
    order by r.name
$$;
grant execute on function deferred.__rules to deferred_producer, deferred_viewer;
