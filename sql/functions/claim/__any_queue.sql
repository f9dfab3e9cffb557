-- A random queue of a random page of their table, so that the number of queues does not matter.
-- Where that page has no row left, a round begins at the first queue.
create or replace function deferred.__any_queue(p_seed bigint) returns text
language plpgsql stable
as $$
declare
    v_pages bigint := pg_relation_size('deferred.__deferred_queue')
                      / current_setting('block_size')::integer;
    v_page  bigint := (hashint8extended(p_seed, 0) & 9223372036854775807) % greatest(v_pages, 1);
begin
    return coalesce((
        select q.name from deferred.__deferred_queue q
        where q.ctid >= format('(%s,0)', v_page)::tid
          and q.ctid < format('(%s,0)', v_page + 1)::tid
        order by hashtextextended(q.name, p_seed) limit 1), '');
end
$$;
comment on function deferred.__any_queue is 'the name of a random queue, whatever it holds';
grant execute on function deferred.__any_queue to deferred_worker;
