-- The params of jobs may be secret, and the audit log is for people who may not see them.
create or replace function deferred.__update_noted(changes json) returns json
language sql immutable
as $$
    select json_object_agg(e.key, case when e.key = 'params' then '"changed"' else e.value end)
    from json_each(changes) e
$$;
comment on function deferred.__update_noted(json) is
    'changes of deferred.update() as the audit log has them: without params';
grant execute on function deferred.__update_noted(json) to deferred_producer;
