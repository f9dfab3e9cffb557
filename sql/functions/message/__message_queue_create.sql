create or replace function deferred.__message_queue_create(queue text,
    metadata json) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    m record;
    q deferred.__deferred_queue;
    v_last bigint;
    v_creator text := 'account:' || split_part($1, '.', 1);
begin
    select * into m from deferred.__message_metadata_read($1, $2);
    if not m.ok then return 8; end if;
    if not deferred.__message_may($1, m.fn) then return 10; end if;
    if m.fn is not null and not deferred.__account_may($1, m.fn) then return 11; end if;
    if not exists (select from deferred.__deferred_queue x
                   where x.name = $1 and x.removed_at is null)
       and not (select c.allowed from deferred.__queue_quota(v_creator) c) then
        return 12;
    end if;
    insert into deferred.__deferred_queue (name, fn, max_dequeue, metadata, created_by)
    values ($1, m.fn, m.max_dequeue, m.own, v_creator) on conflict do nothing;
    if found then return 0; end if;
    select * into q from deferred.__deferred_queue x where x.name = $1 for update;
    if q.removed_at is null then
        return case when (select coalesce(jsonb_object_agg(coalesce(
                              deferred.__message_setting(e.key), lower(e.key)), e.value), '{}')
                          from json_each_text(deferred.__message_metadata(q.metadata, q.fn,
                              q.max_dequeue)) e)
                       = (select coalesce(jsonb_object_agg(coalesce(
                              deferred.__message_setting(e.key), lower(e.key)), e.value), '{}')
                          from json_each_text(deferred.__message_metadata(m.own, m.fn,
                              m.max_dequeue)) e) then 6 else 5 end;
    end if;
    -- A queue made again is empty: of what is left of the former one, some at least is cleared now.
    v_last := deferred.__message_last_id();
    if (select c.more from deferred.__message_clear_some($1, v_last, 2000) c) then
        update deferred.__deferred_queue x set clearing_to = v_last where x.name = $1;
        return 7;
    end if;
    update deferred.__deferred_queue x
    set removed_at = null, clearing_to = null, created_at = clock_timestamp(),
        created_by = v_creator, fn = m.fn, max_dequeue = m.max_dequeue,
        metadata = m.own
    where x.name = $1;
    return 0;
end
$$;
comment on function deferred.__message_queue_create(text, json) is 'makes a queue; its status';
grant execute on function deferred.__message_queue_create(text, json) to deferred_http;
