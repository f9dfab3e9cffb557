-- Functions that some worker has. Without a row no worker has said anything yet, and nothing
-- follows from a name that is not here.
create or replace view deferred.__offered as
    select distinct f.fn collate "C" as fn from deferred.__deferred_offer o
    cross join lateral unnest(o.fn, o.max_attempts) f(fn, max_attempts)
    where f.max_attempts >= 0;  -- else it is refused there
grant select on deferred.__offered to deferred_worker, deferred_viewer;
