-- The jobs that were taken, with their calls. The planner inlines this. Members of the window that
-- each row needs are arguments of their own: as members they would cost 5 % of a claim. Columns
-- that are the same in all rows are NULL behind the first row, for the same reason.
--
-- Each call is found by its id. The bounds of the ids leave all partitions closed that have none.
create or replace function deferred.__claim_calls(
    w deferred.__window, p_of deferred.__deferred_queue, p_picks integer[], p_ids bigint[],
    p_tids tid[], p_attempts integer[], p_attempt_bases integer[], p_ready_since timestamptz[],
    p_flags integer[], p_receipts bigint[], p_first bigint, p_last bigint)
returns setof deferred.__claimed
language sql stable rows 100
as $$
select p_ids[p.i],
       case when p.n = 1 or p_receipts is not null then coalesce(p_receipts[p.n], w.receipt) end,
       least(p_attempts[p.i], 2147483646) + 1, nullif(p_attempt_bases[p.i], 0),
       coalesce(d.max_attempts, p_of.max_attempts), d.timeout_ms,
       coalesce(d.backoff_floor_ms, p_of.backoff_floor_ms),
       coalesce(d.backoff_ceiling_ms, p_of.backoff_ceiling_ms),
       coalesce(d.backoff_exponent, p_of.backoff_exponent), d.created_at, p_ready_since[p.i],
       coalesce(d.fn, (select h.fn from deferred.__deferred_hot h
                       where h.id = any (array[p_ids[p.i]])))::text,
       d.label, d.params, case when p.n = 1 then w.queue end,
       case when p.n = 1 then w.priority end, case when p.n = 1 then p_of.visibility_timeout_ms end,
       case when p_receipts[p.n] is not null then true end, d.tick, d.previous_tick, d.traceparent,
       case when p_flags[p.i] & 16 <> 0 then true end, p_tids[p.i],
       case when p.n = 1 then now() end, null::boolean, null::boolean, null::boolean,
       null::boolean, null::bigint, null::bigint, null::text
from unnest(p_picks) with ordinality p(i, n)
left join lateral deferred.__call(p_ids[p.i], p_first, p_last) d on true
$$;
grant execute on function deferred.__claim_calls to deferred_worker;
