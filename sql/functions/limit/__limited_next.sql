-- One step through each of the two indexes.
create or replace function deferred.__limited_next(p_after text) returns text
language sql stable
as $$
    select least((select h.queue from deferred.__deferred_hot h
                  where h.queue > p_after and h.limited and not h.unknown and h.due_at is null
                    and h.concurrency_key is null
                  order by h.unknown, h.queue, h.fn limit 1),
                 (select h.queue from deferred.__deferred_hot h
                  where h.queue > p_after and h.concurrency_key is not null
                    and (h.due_at is null or h.attempt > coalesce(h.attempt_base, 0))
                  order by h.queue, hashtextextended(h.concurrency_key, 0) limit 1))
$$;
comment on function deferred.__limited_next(text) is
    'the next queue behind a name that has or may have limited jobs that are not delayed; NULL: '
    'none';
grant execute on function deferred.__limited_next(text) to deferred_worker;
