-- Stores a schedule, or changes one. source: the file it comes from; NULL: none.
create or replace function deferred.__schedule_set(name text, rule text, fn text, params json,
                                                   opts json, source text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_owner oid := (select r.oid from pg_roles r where r.rolname = deferred.__actor());
    o       deferred.__deferred_schedule;  -- as it was
    n       deferred.__deferred_schedule
            := deferred.__schedule_read($1, $2, $3, $4, coalesce($5, '{}'));
    v_new   boolean;
    v_was   text;
begin
    begin
        v_was := deferred.__patience('5 seconds');
        insert into deferred.__deferred_schedule (name, rule, cron, zone, fn, params, queue, opts,
            missed, late_ms, overlap, jitter_ms, next_at, owner, source)
        values (n.name, n.rule, n.cron, n.zone, n.fn, n.params, n.queue, n.opts, n.missed,
            n.late_ms, n.overlap, n.jitter_ms, n.next_at, v_owner, $6)
        on conflict (name) do nothing;
        v_new := found;
        if v_new then
            perform deferred.__schedule_quota(n.name, v_owner);
        end if;
        perform set_config('lock_timeout', v_was, true);
    exception when lock_not_available then
        perform deferred.__locked('schedule', n.name);
    end;
    if v_new then
        perform deferred.__schedule_moved(n.queue, n.next_at);
        return 'added';
    end if;
    o := deferred.__schedule_get($1, true);
    if o.source is distinct from $6 then
        raise exception using errcode = '23505',
            message = format('schedule ''%s'' %s', o.name,
                             coalesce('comes from ''' || o.source || '''', 'was set by hand')),
            hint = case when $6 is null then 'change that file and run deferred schedule sync'
                        else 'use another name' end
                   || ', or remove the schedule first: deferred schedule rm ' || o.name;
    end if;
    if (o.rule, o.zone, o.fn, o.params::text, o.queue, o.opts::jsonb, o.missed, o.late_ms,
        o.overlap, o.jitter_ms)
       = (n.rule, n.zone, n.fn, n.params::text, n.queue, n.opts::jsonb, n.missed, n.late_ms,
          n.overlap, n.jitter_ms) then
        return 'unchanged';
    end if;
    if o.paused then
        n.next_at := null;
    elsif (o.rule, o.zone) = (n.rule, n.zone) then
        n.next_at := o.next_at;
    end if;
    update deferred.__deferred_schedule s
    set (rule, cron, zone, fn, params, queue, opts, missed, late_ms, overlap, jitter_ms, next_at,
         changed_at)
      = (n.rule, n.cron, n.zone, n.fn, n.params, n.queue, n.opts, n.missed, n.late_ms, n.overlap,
         n.jitter_ms, n.next_at, clock_timestamp())
    where s.id = o.id;
    perform deferred.__schedule_moved(n.queue, n.next_at) where n.next_at is not null;
    return 'changed';
end
$$;
comment on function deferred.__schedule_set is
    'stores or changes a schedule, which belongs to the role that set it first; part of '
    'deferred.schedule() and "deferred schedule"';
