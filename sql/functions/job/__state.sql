create or replace function deferred.__state(id bigint) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select j.state from deferred.job j where j.id = $1 and deferred.__may_touch(j.created_by::name)
$$;
comment on function deferred.__state(bigint) is
    'part of "deferred cancel": state of a job that one may cancel; NULL: no such job, or that of '
    'another role';
grant execute on function deferred.__state(bigint) to deferred_producer;
