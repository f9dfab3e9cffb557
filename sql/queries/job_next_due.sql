-- job_next_due: how long until the next delayed job is due? A service sleeps no longer than that.
-- no parameters
-- returns one row: milliseconds, rounded up, 0: it is due already (int8); NULL: none is delayed, or for ever
-- locks: none. Index: __deferred_hot_delayed
select greatest(0, ceil(extract(epoch from min(h.due_at) - clock_timestamp()) * 1000))::int8
from deferred.__deferred_hot h where h.due_at < timestamptz 'infinity' and h.fn is not null
