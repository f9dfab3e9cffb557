-- What is wrong is found, and told: by jobs that this defers, in the transaction that writes down that it was told. So each is told once, whichever worker looks
-- first and whatever is killed: until the commit nobody was told, and from then on jobs say it, which are run again where their worker dies (the hook
-- twice at most). Of a cause and a queue or function one message an hour, at most, and of all causes 20; what stands is told again after repeat_ms.
-- The row of __deferred_upkeep has one worker look at a time, once a minute; for builds, of which two days of all series are read, once an hour.
--
-- Never told by a mail: what is about mail itself, the function send_mail. Never told at all: what is about the queue in which it would be told, or about the hook.
-- So no message makes another one.
--
-- p, numbers as text: crashes, retry_ms (__breaker.sql); hook, mail_to (comma-separated), print (who asks tells it himself), one of which there is where anybody
-- wants to be told; queue, timeout_ms
-- of the hook; repeat_ms; late_ms, late_queues, dead, failing, build_ratio: from when on, 0 is never. Returns what was told now; where
-- nobody wants to be told, what was paused now, for the log; and an address that is none.
create or replace function deferred.__alert(p json) returns table (cause text, name text, text text, mend text, note text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set jit = off set lock_timeout = '100ms' set enable_seqscan = on set enable_bitmapscan = on set enable_sort = on
set enable_hashjoin = on set enable_nestloop = on
as $$
#variable_conflict use_column
declare
    v_first boolean;
    v_fresh boolean;
    v_builds boolean;
    v_room  bigint;
    v_to    text[] := array(select btrim(a) from unnest(string_to_array(p->>'mail_to', ',')) a where btrim(a) <> '');
    v       record;
begin
    update deferred.__deferred_upkeep u set breakers_at = now()
    where u.ctid = any (array(select x.ctid from deferred.__deferred_upkeep x
                              where x.breakers_at not between now() - interval '50 seconds' and now() for update skip locked));
    if found then
        perform deferred.__breaker((p->>'crashes')::bigint, (p->>'retry_ms')::bigint);
        select format('%s %s', quote_literal(left(a, 200)), deferred.__mail_address_wrong(a)) into text
        from unnest(v_to) a where deferred.__mail_address_wrong(a) is not null limit 1;
        if found then
            cause := 'settings'; name := 'alert.mail_to'; text := 'setting alert.mail_to: ' || text; mend := 'nobody is told by mail until that is mended: deferred.conf(5)';
            return next;
        end if;
    end if;
    v_to := array(select a from unnest(v_to) a where deferred.__mail_address_wrong(a) is null);
    if p->>'hook' is null and v_to = '{}' and p->>'print' is null then
        return query select a.cause::text, a.name::text, a.text, a.mend, null::text
                     from deferred.__deferred_alert a where a.cause = 'breaker' and a.since = now() and a.ended_at is null;
        return;
    end if;
    select x.alerts_at = '-infinity', x.builds_at not between now() - interval '1 hour' and now() into v_first, v_builds
    from deferred.__deferred_upkeep x where x.alerts_at not between now() - interval '50 seconds' and now() for update skip locked;
    if not found then
        return;
    end if;
    update deferred.__deferred_upkeep set alerts_at = now(), builds_at = case when v_builds then now() else builds_at end;
    v_fresh := deferred.__alert_queues(p);
    perform deferred.__alert_functions(p, v_first, v_builds);
    perform deferred.__alert_found('absent', a.instance, format('%s with pidfile %s on host %s is missed while others come: it was seen %s ago%s',
        case when a.service then 'the service' else 'check_deferred' end, a.pidfile, a.host, make_interval(secs => a.seen_s),
        case when not a.service then format(', and used to come every %s', make_interval(secs => a.every_s)) end),
        format('deferred doctor, on host %s: cron''s line or the unit, and the log it writes', a.host))
    from deferred.__absent() a;
    update deferred.__deferred_alert a set ended_at = now()
    where a.ended_at is null and a.seen_at < now() and a.cause <> 'breaker' and (v_fresh or a.cause not in ('late', 'unserved'))
      and (v_builds or a.cause not in ('slower', 'bigger'));
    delete from deferred.__deferred_alert a where a.ended_at < now() - interval '35 days' and a.cause <> 'dead';

    select greatest(0, 20 - count(*)) into v_room from deferred.__deferred_alert a where a.told_at > now() - interval '1 hour';
    for v in
        select a.cause, a.name, a.text, a.mend, count(*) over () - row_number() over (order by a.cause in ('late', 'unserved'), a.since, a.cause, a.name) as more,
               row_number() over (order by a.cause in ('late', 'unserved'), a.since, a.cause, a.name) as at
        from deferred.__deferred_alert a
        where a.ended_at is null
          and (a.told_at is null or (a.told_at < now() - interval '1 hour'
                                     and (a.cause = 'dead' or a.told_at < a.since or a.told_at < now() - (p->>'repeat_ms')::bigint * interval '1 millisecond')))
        order by at limit v_room
    loop
        cause := v.cause; name := v.name; mend := v.mend; note := null;
        text := v.text || case when v.at = v_room and v.more > 0 then format('; %s more are not told: deferred alert --list', v.more) else '' end;
        if p->>'hook' is not null then
            perform deferred.__alert_job(p->>'queue', 'deferred-alert', json_build_object('cause', cause, 'name', name, 'text', text, 'do', mend,
                'database', current_database(), 'at', to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
                format('%s %s: %s', cause, name, text), (p->>'timeout_ms')::bigint, 2);
        end if;
        if v_to <> '{}' and name = 'send_mail' then
            note := 'not told by mail, for it is about mail';
        elsif v_to <> '{}' then
            perform deferred.__alert_job(p->>'queue', 'send_mail', json_build_object('to', v_to, 'subject', format('deferred: %s %s', cause, name),
                'text', format(E'%s\n\ndo: %s\n\nDatabase %s; deferred alert --list has all that stands.\n', text, mend, current_database()),
                'headers', json_build_object('Auto-Submitted', 'auto-generated')), format('deferred: %s %s', cause, name), null, null);
        end if;
        update deferred.__deferred_alert a
        set told_at = now(),
            counted = case when a.cause <> 'dead' then a.counted else coalesce((
                select t.dead from deferred.__deferred_series s join deferred.__deferred_sum t on t.span = 0 and t.series = s.id and t.at = '-infinity'
                where (s.queue, s.fn, s.plugin) = ('*', a.name, '*')), a.counted) end
        where a.cause = v.cause and a.name = v.name;
        return next;
    end loop;
end
$$;
comment on function deferred.__alert(json) is 'finds what is wrong, once a minute, and defers jobs that tell it; returns what they tell';
grant execute on function deferred.__alert(json) to deferred_worker;
