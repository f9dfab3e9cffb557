-- notice: defer what --on-dead names for jobs that died, one step.
-- params: none
-- returns: more bool
-- Locks: the row of __deferred_notice, which is not waited for. Index: __deferred_log_ended, from
--   an hour before the bookmark; primary keys of __deferred and __deferred_noticed. All of
--   __deferred_on_dead, and where that is empty nothing else
select deferred.__notice() as more
