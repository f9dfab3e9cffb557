-- As __claim_calls(), for a window whose ids lie close together and whose jobs were all taken with
-- one receipt. One walk over the ids reads all calls but that of the first job, with which
-- __claim_calls() has returned what is the same for all. A job whose call is missing is not
-- returned.
create or replace function deferred.__claim_calls_near(
    p_of deferred.__deferred_queue, p_ids bigint[], p_tids tid[], p_attempts integer[],
    p_attempt_bases integer[], p_ready_since timestamptz[], p_flags integer[], p_first bigint,
    p_last bigint)
returns setof deferred.__claimed
language sql stable rows 100
as $$
select d.id, null::bigint,
       least(p_attempts[d.i], 2147483646) + 1, nullif(p_attempt_bases[d.i], 0),
       coalesce(d.max_attempts, p_of.max_attempts), d.timeout_ms,
       coalesce(d.backoff_floor_ms, p_of.backoff_floor_ms),
       coalesce(d.backoff_ceiling_ms, p_of.backoff_ceiling_ms),
       coalesce(d.backoff_exponent, p_of.backoff_exponent), d.created_at, p_ready_since[d.i],
       coalesce(d.fn, (select h.fn from deferred.__deferred_hot h
                       where h.id = any (array[d.id])))::text,
       d.label, d.params, null::text, null::integer, null::bigint, null::boolean, d.tick,
       d.previous_tick, d.traceparent, case when p_flags[d.i] & 16 <> 0 then true end,
       p_tids[d.i], null::timestamptz, null::boolean, null::boolean, null::boolean,
       null::boolean, null::bigint, null::bigint, null::text
from (select array_agg(s.id) as ids, array_agg(s.i) as places
      from (select u.id, u.i from unnest(p_ids) with ordinality u(id, i) order by 1) s) t
cross join lateral (
    select n.*, t.places[n.nth] as i
    from (select x.*, width_bucket(x.id, t.ids) as nth from deferred.__deferred x
          where x.id between p_first and p_last offset 0) n
    where t.ids[n.nth] = n.id and t.places[n.nth] > 1 offset 0) d
$$;
grant execute on function deferred.__claim_calls_near to deferred_worker;
