-- Adds the rows of limits that have none yet. Returns whether some were added. Without the guard an
-- insert would wait for another claim that is adding the same row.
create or replace function deferred.__limited_new(
    p_kinds text[], p_queues text[], p_names text[]) returns boolean
language plpgsql
as $$
begin
    with missing as materialized (
        select u.kind, u.queue, u.name,
               (hashtextextended(u.kind || ' ' || u.queue || ' ' || u.name, 0) & 1023)::integer
                   as n
        from unnest(p_kinds, p_queues, p_names) u(kind, queue, name)
        where (select true from deferred.__deferred_limit l
               where l.kind = u.kind and l.queue = u.queue and l.name = u.name) is null),
    guard as materialized (
        select g.n from deferred.__deferred_limit_guard g
        where g.n = any (array(select m.n from missing m)) for update skip locked)
    insert into deferred.__deferred_limit (kind, queue, name)
    select m.kind, m.queue, m.name from missing m
    where m.n = any (array(select g.n from guard g))
    on conflict do nothing;
    return found;
end
$$;
grant execute on function deferred.__limited_new to deferred_worker;
