-- Part of deferred.check_ledger(): jobs that do not know the event they waited for, and rows of
-- events that no job awaits.
create or replace function deferred.__ledger_events()
returns table (invariant text, job_id bigint, detail text)
language sql stable
as $$
    select 'I10: an event that came is counted, or there is a note', e.child,
           format('waits for event ''%s''', a.name)
    from deferred.__deferred_edge e
    join deferred.__deferred_wait w on w.id = e.child and w.waits > 0 and w.unmet is null
    join deferred.__deferred_hot h on h.id = e.child and h.due_at = 'infinity'
    join deferred.__deferred_awaited a on a.child = e.child and a.parent = e.parent
    where e.what is null and deferred.__event_of(a) is not null
      and not exists (select from deferred.__deferred_ended n
                      where (n.what = 'l' and n.id = e.child
                             and coalesce(n.upto, e.parent) = e.parent)
                         or (n.what = 'e' and n.after < e.child
                             and exists (select from deferred.__deferred_event v
                                         where v.id = n.id and v.owner = a.owner
                                           and v.name = a.name)))
  union all
    select 'I10: a job knows its event, or waits, or the time was up', e.child,
           format('of event ''%s'': edge %s, event %s', a.name, e.what, a.sent)
    from deferred.__deferred_edge e
    left join deferred.__deferred_awaited a on a.child = e.child and a.parent = e.parent
    where e.parent < 0
      and (case e.what when 'o' then a.sent > 0 when 'f' then a.sent = 0
                       else coalesce(a.sent, 0) = 0 end and a.child is not null
           and (e.what is not null or a.sent is null
                or not exists (select from deferred.__deferred_wait w
                               join deferred.__deferred_hot h on h.id = w.id
                               where w.id = e.child and w.unmet is null
                                 and h.due_at = 'infinity'))) is not true
  union all
    select 'I10: an event is awaited by a job', a.child,
           format('event ''%s'': no edge, or no row in __deferred', a.name)
    from deferred.__deferred_awaited a
    where a.since >= (select u.log_from from deferred.__deferred_upkeep u)
      and not (exists (select from deferred.__deferred d where d.id = a.child)
               and exists (select from deferred.__deferred_edge e
                           where e.child = a.child and e.parent = a.parent))
$$;
grant execute on function deferred.__ledger_events to deferred_worker;
