-- The actions of operators as a viewer sees them: without error texts, which may be in a filter.
create or replace view deferred.__action as
    select a.id, a.at, a.who, a.role, a.login, a.address, a.verb, a.job_id, a.queue, a.fn,
           a.schedule, a.settings, a.refused,
           case when pg_has_role('deferred_reader', 'member') then a.filter
                else (a.filter::jsonb - 'error')::json end as filter, a.jobs, a.flow
    from deferred.__deferred_action a;
grant select on deferred.__action to deferred_viewer;
