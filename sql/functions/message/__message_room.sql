-- max_running and rate of a queue count for consumers as they do for workers: see
-- deferred.__claim_limited(). Its row of __deferred_limit stays locked, and is waited for, in the
-- order of names.
create or replace function deferred.__message_room(queues text[]) returns json
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now timestamptz;
begin
    insert into deferred.__deferred_limit (kind, queue, name)
    select 'queue', u.name, '' from unnest($1) as u(name)
    where not exists (select from deferred.__deferred_limit l
                      where l.kind = 'queue' and l.queue = u.name and l.name = '')
    order by u.name on conflict do nothing;
    perform from deferred.__deferred_limit l where l.kind = 'queue' and l.queue = any ($1)
        and l.name = '' order by l.queue for update;
    v_now := clock_timestamp();  -- later than any holder before us looked at the clock
    return (
        select json_object_agg(l.queue, json_build_object('now', v_now, 'tokens', t.tokens, 'still',
            r.still,
                   'room', greatest(0, least(1000000000, q.max_running - cardinality(r.still),
                                             floor(t.tokens)))::integer))
        from deferred.__deferred_limit l
        join deferred.__deferred_queue q on q.name = l.queue
        cross join lateral (
            select array(select h.id from unnest(l.running) i
                         join deferred.__deferred_hot h on h.id = any (array[i])
                         where h.receipt is not null and h.visible_at > v_now) as still) r
        cross join lateral (
            select deferred.__tokens(l.tokens, l.tokens_at, q.rate, coalesce(q.burst, 1), v_now)
                as tokens) t
        where l.kind = 'queue' and l.queue = any ($1) and l.name = '');
end
$$;
comment on function deferred.__message_room(text[]) is
    'how many messages the limits of these queues let be taken now; locks their rows';
