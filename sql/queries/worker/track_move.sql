-- track_move: a worker of a balanced group reports the steps it made and learns how many it may
-- make. The last statement of a cycle, so that what it locks is locked briefly.
-- params: worker int8, group text, range int4, lease_ms int8, round int8, made int4
-- returns: live bool, round int8, steps int4, made int4
-- $4 0: leave the group. $5 round that $6 belongs to; -1: none yet. $6 steps made in that round.
-- Rows: one row. live false: ask again to join, or left as asked.
-- Locks: its own track; joining, and at the end of a round, the row of the group too, waiting for
--   neither.
-- Indexes: primary keys of __deferred_track and __deferred_group, __deferred_track_group.
select m.live, m.round, m.steps, m.made
from deferred.__track_move($1::int8, $2::text, $3::int4, $4::int8, $5::int8, $6::int4) m
