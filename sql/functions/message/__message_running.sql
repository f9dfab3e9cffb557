create or replace function deferred.__message_running(queues text[], room json,
                                                      ids bigint[]) returns void
language sql
as $$
    update deferred.__deferred_limit l
    set running = array(select e.id::bigint
                        from json_array_elements_text($2->l.queue->'still') e(id) union select t.id
                        from unnest(t.ids) t(id)),
        tokens = ($2->l.queue->>'tokens')::double precision - cardinality(t.ids),
        tokens_at = ($2->l.queue->>'now')::timestamptz,
        used_at = ($2->l.queue->>'now')::timestamptz
    from (select h.queue, array_agg(h.id) as ids from deferred.__deferred_hot h
          where h.id = any ($3) group by h.queue) t
    where l.kind = 'queue' and l.queue = t.queue and l.queue = any ($1) and l.name = ''
$$;
comment on function deferred.__message_running(text[], json, bigint[]) is
    'notes messages taken of queues with limits';
