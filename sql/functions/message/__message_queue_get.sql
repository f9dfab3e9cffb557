create or replace function deferred.__message_queue_get(queue text, out status integer,
                                                        out metadata json, out messages bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q deferred.__deferred_queue;
    v_exact constant integer := 10000;
    v_now timestamptz := clock_timestamp();
    v_plan json;
begin
    select * into q from deferred.__deferred_queue x where x.name = $1 and x.removed_at is null;
    if not found then
        status := 1;
        return;
    end if;
    status := 0;
    metadata := deferred.__message_metadata(q.metadata, q.fn, q.max_dequeue);
    select count(*) into messages
    from (select from deferred.__deferred_hot h where h.queue = $1 and h.fn is null
          and (h.expires_at is null or h.expires_at > v_now)
          union all
          select from deferred.__deferred_hot h where h.queue = $1 and h.fn is not null
              and h.due_at is null and not h.limited
          union all
          select from deferred.__deferred_hot h
          where h.queue = $1 and h.fn is not null and h.due_at is null and h.limited
            and h.concurrency_key is null and h.unknown in (false, true)
          union all
          select from deferred.__deferred_hot h
          where h.queue = $1 and h.fn is not null and h.concurrency_key is not null
            and h.due_at is null and h.limited
          union all
          -- Delayed calls are not kept by queue: only some are looked at.
          select from (select h.queue from deferred.__deferred_hot h
                       where h.due_at is not null and h.fn is not null limit v_exact) x
          where x.queue = $1
          limit v_exact + 1) y;
    if messages > v_exact then
        execute 'explain (format json) select from deferred.__deferred_hot where queue = ' ||
            quote_literal($1) into v_plan;
        messages := greatest(messages, (v_plan->0->'Plan'->>'Plan Rows')::numeric::bigint);
    end if;
end
$$;
comment on function deferred.__message_queue_get(text) is
    'metadata of a queue and how many jobs it holds: beyond 10000 an estimate';
grant execute on function deferred.__message_queue_get(text) to deferred_http;
