-- The jobs that may be the trial of a function that the breaker paused, from a lane. The first of
-- them is of a random role, whatever the priority.
create or replace function deferred.__limited_trial(
    p_queue text, p_fn text, p_room integer, p_seed bigint)
returns table (tid tid, id bigint, turn smallint)
language plpgsql stable rows 1
as $$
#variable_conflict use_column
declare
    v_tids  tid[];
    v_ids   bigint[];
    v_first bigint;
    v_last  bigint;
begin
    select array_agg(x.tid), array_agg(x.id), min(x.id), max(x.id)
    into v_tids, v_ids, v_first, v_last
    from ((select y.ctid as tid, y.id from deferred.__deferred_hot y
           where y.queue = p_queue and y.fn = p_fn and y.limited and y.concurrency_key is null
             and y.due_at is null and y.receipt is null and not y.unknown
           order by y.unknown, y.queue, y.fn, y.priority desc, y.id limit 500)
          union
          (select y.ctid, y.id from deferred.__deferred_hot y
           where y.queue = p_queue and y.fn = p_fn and y.limited and y.concurrency_key is null
             and y.due_at is null and y.receipt is null and not y.unknown
           order by y.unknown desc, y.queue desc, y.fn desc, y.priority, y.id desc limit 500)) x;
    return query
    select x.tid, x.id, (hashtextextended(d.created_by, p_seed) & 32767)::smallint as turn
    from unnest(v_tids, v_ids) x(tid, id)
    cross join lateral deferred.__call(x.id, v_first, v_last) d
    order by turn desc, x.id limit p_room;
end
$$;
grant execute on function deferred.__limited_trial to deferred_worker;
