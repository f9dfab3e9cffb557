create or replace function deferred.__on_timeout("on" "char") returns text
language sql immutable
as $$
    select case $1 when 'c' then 'cancel' when 'f' then 'fail' when 'r' then 'run' end
$$;
comment on function deferred.__on_timeout is
    'what becomes of a job at the time limit of an event, as option "wait_for" has it';
grant execute on function deferred.__on_timeout to deferred_worker, deferred_viewer;
