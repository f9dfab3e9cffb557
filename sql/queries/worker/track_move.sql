-- track_move: a worker of a balanced group reports the steps it made and learns how many it may make. The last
-- statement of a cycle, so that what it locks is locked briefly.
-- $1 worker id, int8   $2 group, text   $3 range, int4
-- $4 lease of the track in milliseconds, int8; 0: leave the group
-- $5 round that $6 belongs to, int8; -1: none yet
-- $6 steps made in that round, int4
-- returns one row: in the group (bool; false: ask again to join, or left as asked), round (int8), steps of the
--   round (int4), steps made in it (int4)
-- locks: its own track; joining, and at the end of a round, the row of the group too, waiting for neither.
-- Indexes: primary keys of __deferred_track and __deferred_group, __deferred_track_group
select m.live, m.round, m.steps, m.made
from deferred.__track_move($1::int8, $2::text, $3::int4, $4::int8, $5::int8, $6::int4) m
