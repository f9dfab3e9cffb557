-- web_schedule_form: the values in the form of a schedule.
-- params: name text
-- returns: key text, value text
-- Rows: a row for each field: its name, its value. Two are not fields: "version" is for
--   web_act_schedule_set, and "refused" says why the schedule cannot be changed.
-- Locks: none
select f.key, f.value
from deferred.__schedules() s
cross join lateral (
    select max(t) filter (where u.n = 1) as late, max(t) filter (where u.n = 2) as jitter
    from unnest(array[nullif(s.late_ms, 300000), nullif(s.jitter_ms, 0)]) with ordinality u(ms, n),
         lateral (select case when u.ms % 60000 = 0 then u.ms / 60000 || 'min'
                              when u.ms % 1000 = 0 then u.ms / 1000 || 's'
                              else u.ms || 'ms' end) x(t)) span
cross join lateral (
    select case when s.params is null
                then format('schedule ''%s'' belongs to role %s, whose members alone may change it',
                            s.name, s.owner)
                when s.source is not null
                then format('schedule ''%s'' comes from ''%s'': change it there and sync',
                            s.name, s.source) end as why) refused
cross join lateral jsonb_each_text(jsonb_strip_nulls(coalesce(s.opts::jsonb - 'tags', '{}')
    || jsonb_build_object(
        'name', s.name, 'rule', s.rule, 'fn', s.fn, 'timezone', s.zone, 'queue', s.queue,
        'missed', s.missed, 'late', span.late, 'overlap', s.overlap, 'jitter', span.jitter,
        'params', s.params::text, 'version', extract(epoch from s.changed_at)::text,
        'refused', refused.why))) f
where s.name = $1
