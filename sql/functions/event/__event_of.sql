-- Which event ends the wait: the last one that was kept when the job was deferred. If there is
-- none, the first one that was sent in time since then. NULL: none yet.
--
-- deferred.__settle() asks this for each note. An event and a job may be
-- stored in two transactions at once. Each of them leaves a note. Of the two notes, the one that is
-- processed later finds both the event and the job, whichever transaction commits first. So nobody
-- locks a name, and neither side waits for the other.
create or replace function deferred.__event_of(a deferred.__deferred_awaited) returns bigint
language sql stable
as $$
    select coalesce(
        (select v.id from deferred.__deferred_event v
         where v.owner = a.owner and v.name = a.name and v.sent_at < a.since
           and v.kept_until > a.since
         order by v.sent_at desc, v.id desc limit 1),
        (select v.id from deferred.__deferred_event v
         where v.owner = a.owner and v.name = a.name and v.sent_at >= a.since
           and (v.sent_at <= a.until) is not false
         order by v.sent_at, v.id limit 1))
$$;
comment on function deferred.__event_of is 'the event that a job gets that waits for its name';
grant execute on function deferred.__event_of to deferred_worker;
