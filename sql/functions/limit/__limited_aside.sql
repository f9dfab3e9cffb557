-- Sets jobs of lanes aside whose function no worker has. A claim meets them once. Then no claim
-- does until a worker has their function.
create or replace function deferred.__limited_aside(p_queues text[], p_fns text[]) returns void
language plpgsql
as $$
declare
    v_lane constant integer := 500;   -- jobs of a lane, and
    v_most constant integer := 2000;  -- of all lanes that one claim sets aside
    v_offered       text[] := deferred.__functions_offered();
begin
    update deferred.__deferred_hot h set unknown = true
    where h.id = any (array(
        select y.id from (
            select s.queue, s.fn from unnest(p_queues, p_fns) s(queue, fn)
            where v_offered is not null and s.fn not in (select unnest(v_offered))) s
        cross join lateral (
            select x.id from deferred.__deferred_hot x
            where x.queue = s.queue collate "C" and x.fn = s.fn collate "C" and x.limited
              and not x.unknown and x.concurrency_key is null
              and x.due_at is null and x.receipt is null
            order by x.unknown, x.queue, x.fn, x.priority desc, x.id
            limit v_lane for update skip locked) y
        limit v_most));
end
$$;
grant execute on function deferred.__limited_aside to deferred_worker;
