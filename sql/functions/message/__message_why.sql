-- Why requests were not fulfilled, seen after the fact. In PL/pgSQL, for an SQL function would be
-- planned at each call.
create or replace function deferred.__message_why(queues text[], ids bigint[],
                                                  done integer[]) returns table (item integer,
                                                      status integer)
language plpgsql
as $$
begin
    if cardinality($3) = cardinality($1) then
        return query select n, 0 from generate_series(1, cardinality($1)) n;
        return;
    end if;
    return query
    select i.n::integer,
           case when i.n = any ($3) then 0
                when not exists (select from deferred.__deferred_queue q
                                 where q.name = i.queue and q.removed_at is null) then 1
                when exists (select from deferred.__deferred_hot h
                             where h.id = i.id and h.queue = i.queue
                             and (h.expires_at is null or h.expires_at > clock_timestamp())) then 3
                else 2 end
    from unnest($1, $2) with ordinality as i(queue, id, n);
end
$$;
comment on function deferred.__message_why is 'status of each request; those in done are';
