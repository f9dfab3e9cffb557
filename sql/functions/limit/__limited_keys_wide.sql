-- The first ready jobs of a key that allows more than one at once. The planner inlines this.
create or replace function deferred.__limited_keys_wide(
    p_queue text, p_hash bigint, p_most integer, p_known text[])
returns table (tid tid)
language sql stable rows 10
as $$
    select h.ctid from deferred.__deferred_hot h
    where h.queue = p_queue and h.concurrency_key is not null
      and hashtextextended(h.concurrency_key, 0) = p_hash and h.concurrency > 1
      and h.due_at is null and h.receipt is null and h.fn is not null
      and (p_known is null or h.fn = any (p_known))
    order by h.queue, hashtextextended(h.concurrency_key, 0), h.id limit p_most
$$;
grant execute on function deferred.__limited_keys_wide to deferred_worker;
