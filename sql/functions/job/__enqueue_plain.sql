-- Stores many jobs without options. If the queue 'default' has no settings, and no function or role
-- has limits, no job needs a check of its own. Otherwise deferred.__enqueue_many() stores the jobs.
create or replace function deferred.__enqueue_plain(fn text[], params json[]) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now   timestamptz := clock_timestamp();
    v_actor name := deferred.__actor();
    v_plain boolean;
    v_ids   bigint[];
begin
    select bool_and((length(j.fn) <= 127 and j.fn <> 'send_mail'
                     and j.fn collate "C" ~ '^[A-Za-z_][A-Za-z0-9_.]*$'
                     and octet_length(j.params::text) <= 512) is true)
    into v_plain from (select unnest($1) as fn, unnest($2) as params) j;
    if (v_plain and pg_sequence_last_value('deferred.__deferred_unrestricted') = 1
        and exists (select from deferred.__deferred_queue q
                    where q.name = 'default' and q.simple)) is not true then
        return query select deferred.__enqueue_many($1, $2, null, null, null, null, null, null,
            null, null, null, null, null, null, null, null);
        return;
    end if;
    v_ids := array(select nextval('deferred.__deferred_id_seq') from (select unnest($1)) j);
    insert into deferred.__deferred_hot (id, queue, fn, visible_at)
    select j.id, 'default', j.fn, v_now from (select unnest(v_ids) as id, unnest($1) as fn) j;
    insert into deferred.__deferred (id, queue, fn, params, created_at, created_by)
    select j.id, 'default', j.fn, j.params, v_now, v_actor
    from (select unnest(v_ids) as id, unnest($1) as fn, unnest($2) as params) j;
    if not deferred.__nobody_waits() then
        perform deferred.__wake('default');
    end if;
    return query select unnest(v_ids);
end
$$;
comment on function deferred.__enqueue_plain is
    'part of deferred.defer_many(): jobs without options';
grant execute on function deferred.__enqueue_plain to deferred_producer;
