-- Whether a job lies in a lane: it is ready, no limit holds it back, and it is not a message. The
-- planner inlines this, so that a scan takes the index __deferred_hot_ready, which has the same
-- condition. The arguments are columns: a viewer may not read all of a row.
create or replace function deferred.__in_lane(due_at timestamptz, limited boolean, fn text)
returns boolean
language sql immutable parallel safe
as $$ select $1 is null and not $2 and $3 is not null $$;
grant execute on function deferred.__in_lane to deferred_worker, deferred_viewer;
