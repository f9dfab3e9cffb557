create or replace function deferred.state(outcome text) returns text
language sql immutable
as $$
    select case outcome when 'ok' then 'done' when 'cancelled' then 'cancelled'
                when 'expired' then 'expired' else 'dead' end
$$;
comment on function deferred.state(text) is
    'state of a job whose last attempt ended finally with this outcome';
grant execute on function deferred.state(text) to deferred_producer, deferred_viewer;
