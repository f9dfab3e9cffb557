-- Most jobs have no options, their queue no settings, and nobody is limited: then one condition stands for all the
-- checks of __enqueue(), which cost as much as the rows.
create or replace function deferred.defer(fn text, params json default '{}', opts json default null, queue text default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_id    bigint;
    v_now   timestamptz;
    v_queue text;
begin
    if opts is not null then
        return deferred.__enqueue_opts(fn, params, opts, $4);
    end if;
    insert into deferred.__deferred_hot (id, queue, fn, visible_at)
    select nextval('deferred.__deferred_id_seq'), q.name, $1, clock_timestamp()
    from deferred.__deferred_queue q
    where q.name = coalesce($4, 'default') and q.simple and octet_length($2::text) <= 512
      and length($1) <= 127 and $1 collate "C" ~ '^[A-Za-z_][A-Za-z0-9_.]*$'
      and not exists (select from deferred.__deferred_grant)
      and not exists (select from deferred.__deferred_function f where f.name = $1)
    returning id, visible_at, queue into v_id, v_now, v_queue;
    if v_id is null then
        return deferred.__enqueue(fn, params, $4, null, null, null, null, null, null, null, null, null, null, null, null, null);
    end if;
    insert into deferred.__deferred (id, queue, fn, params, created_at, created_by)
    values (v_id, v_queue, $1, $2, v_now, deferred.__actor());
    if not deferred.__unawaited(v_queue) then
        perform deferred.__wake(v_queue);
    end if;
    return v_id;
end
$$;
comment on function deferred.defer is 'have fn run later with params; returns the job id';
grant execute on function deferred.defer to deferred_producer;
