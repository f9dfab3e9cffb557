-- job_turn_1: as job_turn_0.sql, for the second half of the jobs.
lock table deferred.__deferred_turn_1 in exclusive mode
