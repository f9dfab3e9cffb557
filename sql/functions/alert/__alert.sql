-- Finds what is wrong and defers the jobs that report it, in the transaction that records the
-- report. So each problem is reported once, whichever worker looks first and whatever is killed.
-- Before the commit nothing was reported. Afterwards there are jobs, which run again where their
-- worker dies (the hook twice at most). Each queue or function has one message an hour per cause. A
-- problem that stands is reported again after repeat_ms. The row of __deferred_upkeep lets one
-- worker look at a time, once a minute. Builds, for which two days of all series are read, are
-- looked at once an hour.
--
-- No role can use up the messages of others, or have many sent. Each cause has a budget: 10
-- messages an hour, and beyond that one in ten minutes. The last message of a budget also names the
-- rest.
-- Whoever defers can make queues, so all queues that are late or unserved share one message: 3 an
-- hour, and beyond that one in ten minutes. It names the worst queue of each role that added queues
-- before the second one of any role.
--
-- Never reported by mail: a problem of the function send_mail. Never reported at all: a problem of
-- the queue that takes these jobs, or of the hook. So no message causes another one.
--
-- p, numbers as text: crashes, retry_ms (__breaker.sql); hook, mail_to (comma-separated), print
-- (the caller prints), one of which is there where anybody wants reports; queue, timeout_ms of the
-- hook; repeat_ms; late_ms, late_queues, dead, failing, build_ratio: from when on, 0 is never.
-- Returns what was reported now; where nobody wants reports, what was paused now, for the log; and
-- an address that is invalid.
create or replace function deferred.__alert(p json) returns table (cause text, name text, text text,
    mend text, note text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set jit = off set lock_timeout = '100ms'
set enable_seqscan = on set enable_bitmapscan = on set enable_sort = on
set enable_hashjoin = on set enable_nestloop = on
as $$
#variable_conflict use_column
declare
    v_first boolean;
    v_fresh boolean;
    v_builds boolean;
    v_repeat interval := (p->>'repeat_ms')::bigint * interval '1 millisecond';
    v_sampled_at timestamptz := (select f.sampled_at from deferred.__deferred_folded f);
    v_to    text[] := array(select btrim(a) from unnest(string_to_array(p->>'mail_to', ',')) a
                            where btrim(a) <> '');
    v       record;
begin
    update deferred.__deferred_upkeep u set breakers_at = now()
    where u.ctid = any (array(select x.ctid from deferred.__deferred_upkeep x
                              where x.breakers_at not between now() - interval '50 seconds'
                                and now() for update skip locked));
    if found then
        perform deferred.__breaker((p->>'crashes')::bigint, (p->>'retry_ms')::bigint);
        select format('%s %s', quote_literal(left(a, 200)),
                      deferred.__mail_address_wrong(a)) into text
        from unnest(v_to) a where deferred.__mail_address_wrong(a) is not null limit 1;
        if found then
            cause := 'settings'; name := 'alert.mail_to'; text := 'setting alert.mail_to: ' || text;
            mend := 'no alert is sent by mail until the address is correct: deferred.conf(5)';
            return next;
        end if;
    end if;
    v_to := array(select a from unnest(v_to) a where deferred.__mail_address_wrong(a) is null);
    if p->>'hook' is null and v_to = '{}' and p->>'print' is null then
        return query select a.cause::text, a.name::text, a.text, a.mend, null::text
                     from deferred.__deferred_alert a where a.cause = 'breaker' and a.since = now()
                         and a.ended_at is null;
        return;
    end if;
    select x.alerts_at = '-infinity',
           x.builds_at not between now() - interval '1 hour' and now() into v_first, v_builds
    from deferred.__deferred_upkeep x
    where x.alerts_at not between now() - interval '50 seconds' and now() for update skip locked;
    if not found then
        return;
    end if;
    update deferred.__deferred_upkeep
    set alerts_at = now(), builds_at = case when v_builds then now() else builds_at end;
    v_fresh := deferred.__alert_queues(p);
    perform deferred.__alert_functions(p, v_first, v_builds);
    perform deferred.__alert_found('absent', a.instance,
                                   format('%s with pidfile %s on host %s is missed while others '
                                          'come: it was seen %s ago%s',
        case when a.service then 'the service' else 'check_deferred' end, a.pidfile, a.host,
        make_interval(secs => a.seen_s),
        case when not a.service then format(', and used to come every %s',
                                            make_interval(secs => a.every_s)) end),
        format('deferred doctor, on host %s: cron''s line or the unit, and the log it writes',
               a.host))
    from deferred.__absent() a;
    update deferred.__deferred_alert a set ended_at = now()
    where a.ended_at is null and a.seen_at < now() and a.cause <> 'breaker'
      and (v_fresh or a.cause not in ('late', 'unserved'))
      and (v_builds or a.cause not in ('slower', 'bigger'));
    -- Producers choose the names of queues, so those go sooner.
    delete from deferred.__deferred_alert a
    where a.cause <> 'dead'
      and a.ended_at < now() - case when a.cause in ('late', 'unserved') then interval '1 day'
                                    else interval '35 days' end;

    for v in
        with alert as materialized (
            select a.*, k.kind, coalesce(q.created_by, '') as creator, d.oldest_s
            from deferred.__deferred_alert a
            cross join lateral (
                select case when a.cause in ('late', 'unserved') then 'queue'
                            else a.cause end as kind) k
            left join deferred.__deferred_queue q on k.kind = 'queue' and q.name = a.name
            left join deferred.__deferred_depth d on d.queue = q.name and d.at = v_sampled_at),
        sent as materialized (
            select s.kind, case when s.kind = 'queue' then (s.messages < 3 or s.pause)::integer
                                else greatest(10 - s.n, s.pause::integer) end as room
            from (select a.kind, count(*) filter (where a.told_at > now() - interval '1 hour') as n,
                         count(distinct a.told_at)
                         filter (where a.told_at > now() - interval '1 hour') as messages,
                         coalesce(max(a.told_at) < now() - interval '10 minutes', true) as pause
                  from alert a group by a.kind) s),
        due as materialized (
            select a.*, row_number() over (
                       partition by a.kind order by t.turn, a.oldest_s desc nulls last,
                       greatest(a.since, a.told_at + interval '1 hour'), a.cause, a.name) as at
            from (select a.*, row_number() over (
                             partition by a.kind, case when a.kind = 'queue' then a.creator end
                             order by a.oldest_s desc nulls last, a.name) as nth
                  from alert a
                  where a.ended_at is null
                    and (a.told_at is null
                         or (a.told_at < now() - interval '1 hour'
                             and (a.cause = 'dead' or a.told_at < a.since
                                  or a.told_at < now() - v_repeat)))) a
            cross join lateral (select case when a.kind = 'queue' then a.nth end as turn) t)
        select d.kind, d.cause, d.name, d.text, d.mend, r.names
        from sent s
        join due d on d.kind = s.kind and d.at <= s.room
        cross join lateral (
            select array_agg(o.name order by o.at) as names
            from due o where d.at = s.room and o.kind = d.kind and o.at > d.at) r
        order by d.kind = 'queue', d.since, d.cause, d.at
    loop
        cause := v.cause; name := v.name; mend := v.mend; note := null;
        text := v.text || case when v.names is not null then
            format('; the same of %s other%s: %s%s; %s', cardinality(v.names),
                   case when cardinality(v.names) > 1 then 's' end,
                   array_to_string(v.names[:5], ', '),
                   case when cardinality(v.names) > 5 then ', ...' end,
                   case when cause = 'dead' then 'deferred ls --state dead'
                        else 'deferred alert --list' end) else '' end;
        if p->>'hook' is not null then
            perform deferred.__alert_job(p->>'queue', 'deferred-alert',
                                         json_build_object('cause', cause, 'name', name, 'text',
                                             text, 'do', mend,
                'database', current_database(), 'at',
                to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
                format('%s %s: %s', cause, name, text), (p->>'timeout_ms')::bigint, 2);
        end if;
        if v_to <> '{}' and name = 'send_mail' and v.names is null then
            note := 'not told by mail, for it is about mail';
        elsif v_to <> '{}' then
            perform deferred.__alert_job(p->>'queue', 'send_mail',
                                         json_build_object('to', v_to, 'subject',
                                             format('deferred: %s %s', cause, name),
                'text',
                format(E'%s\n\ndo: %s\n\nDatabase %s; deferred alert --list has all that stands.\n',
                       text, mend, current_database()),
                'headers', json_build_object('Auto-Submitted', 'auto-generated')),
                format('deferred: %s %s', cause, name), null, null);
        end if;
        update deferred.__deferred_alert a
        set told_at = now(),
            counted = case when a.cause <> 'dead' then a.counted else coalesce((
                select t.dead from deferred.__deferred_series s
                join deferred.__deferred_sum t on t.span = 0 and t.series = s.id
                    and t.at = '-infinity'
                where (s.queue, s.fn, s.plugin) = ('*', a.name, '*')), a.counted) end
        where case when a.cause in ('late', 'unserved') then 'queue' else a.cause end = v.kind
          and a.name = any (v.name || v.names) and a.ended_at is null;
        return next;
    end loop;
end
$$;
comment on function deferred.__alert(json) is
    'finds what is wrong, once a minute, and defers jobs that tell it; returns what they tell';
grant execute on function deferred.__alert(json) to deferred_worker;
