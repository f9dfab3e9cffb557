-- Whether no job may be taken from a queue now. The planner inlines it, so it costs no call.
create or replace function deferred.__is_paused(q deferred.__deferred_queue) returns boolean
language sql stable parallel safe
as $$ select q.paused and (q.paused_until is null or q.paused_until > now()) $$;
comment on function deferred.__is_paused is 'whether no job may be taken from a queue now';
grant execute on function deferred.__is_paused to deferred_worker, deferred_viewer;
