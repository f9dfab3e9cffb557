-- schedule_ls: the schedules one may see.
-- params: name text
-- returns: name text, rule text, zone text, fn text, queue text, owner text, next text, last text,
--   last_what text, last_error text, json json
-- $1 NULL: all
-- Rows: by name. Ticks are as clocks in the zone show them
-- Locks: none
select s.name, s.rule, s.zone, s.fn, s.queue, s.owner::text,
       case when s.paused then 'paused' when s.next_at is null then 'never'
            else deferred.__schedule_time(s.next_at, s.zone) end as next,
       deferred.__schedule_time(s.last_at, s.zone) as last, s.last_what, s.last_error,
       json_build_object('name', s.name, 'rule', s.rule, 'timezone', s.zone, 'fn', s.fn, 'params',
                         s.params, 'queue', s.queue, 'opts', s.opts,
           'missed', s.missed, 'late_ms', s.late_ms, 'overlap', s.overlap, 'jitter_ms', s.jitter_ms,
           'paused', s.paused, 'next_at', s.next_at,
           'last_at', s.last_at, 'last_what', s.last_what, 'queued_at', s.queued_at, 'last_job',
           s.last_job, 'last_error', s.last_error,
           'owner', s.owner::text, 'source', s.source, 'created_at', s.created_at, 'changed_at',
           s.changed_at) as json
from deferred.__schedules() s
where $1::text is null or s.name = $1
