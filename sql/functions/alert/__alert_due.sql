-- The problems that are to be reported now, each with the names of others that its message names. A
-- problem is reported again after repeat, and at most once an hour.
--
-- No role can use up the messages of others, or have many sent: each kind of problem has a budget.
-- That is 10 messages an hour, and beyond that one in ten minutes. The last message of a budget
-- names all other problems of its kind. Producers can create queues, so all queues that are late or
-- unserved share one message. Their budget is 3 messages an hour, and beyond that one in ten
-- minutes. The message names the worst queue of each role that added queues before the second one
-- of any role.
create or replace function deferred.__alert_due(repeat interval)
returns table (kind text, cause text, name text, text text, remedy text, names text[])
language sql
as $$
    with alert as materialized (
        select a.*, q.created_by as creator, d.oldest_s
        from deferred.__deferred_alert a
        left join deferred.__deferred_queue q on a.kind = 'queue' and q.name = a.name
        left join deferred.__deferred_depth d on d.queue = q.name
            and d.at = (select f.sampled_at from deferred.__deferred_folded f)),
    budget as (
        select s.kind, case when s.kind = 'queue' then (s.messages < 3 or s.pause)::integer
                            else greatest(10 - s.n, s.pause::integer) end as room
        from (select a.kind, count(*) filter (where a.reported_at > now() - interval '1 hour') as n,
                     count(distinct a.reported_at)
                     filter (where a.reported_at > now() - interval '1 hour') as messages,
                     coalesce(max(a.reported_at) < now() - interval '10 minutes', true) as pause
              from alert a group by a.kind) s),
    due as materialized (
        select a.*, row_number() over (
                   partition by a.kind
                   order by case a.kind when 'queue' then a.turn end, a.oldest_s desc nulls last,
                            greatest(a.since, a.reported_at + interval '1 hour'), a.cause, a.name)
                   as at
        from (select a.*, row_number() over (partition by a.kind, a.creator
                                             order by a.oldest_s desc nulls last, a.name) as turn
              from alert a
              where a.ended_at is null
                and (a.reported_at is null
                     or (a.reported_at < now() - interval '1 hour'
                         and (a.cause = 'dead' or a.reported_at < a.since
                              or a.reported_at < now() - repeat)))) a)
    select d.kind, d.cause, d.name,
           d.text || case cardinality(o.names) when 0 then ''
                     else format('; the same of %s other%s: %s%s; deferred %s',
                                 cardinality(o.names), case when o.names[2] <> '' then 's' end,
                                 array_to_string(o.names[:5], ', '),
                                 case when o.names[6] <> '' then ', ...' end,
                                 case d.cause when 'dead' then 'ls --state dead'
                                      else 'alert --list' end) end,
           d.remedy, o.names
    from budget b
    join due d on d.kind = b.kind and d.at <= b.room
    cross join lateral (
        select array(select o.name from due o
                     where d.at = b.room and o.kind = d.kind and o.at > d.at order by o.at)
               as names) o
    order by d.kind = 'queue', d.since, d.cause, d.at
$$;
