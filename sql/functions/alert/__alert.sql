-- Finds what is wrong and defers the jobs that report it, in the transaction that records the
-- report. So each problem is reported once, even if a worker is killed. Before the commit nothing
-- was reported, and after it the jobs exist. A job runs again if its worker dies (the hook twice at
-- most). The row of __deferred_upkeep lets one worker look at a time, once a minute. Builds, for
-- which two days of all series are read, are looked at once an hour.
--
-- Never reported by mail: a problem of the function send_mail. Never reported at all: a problem of
-- the queue that takes these jobs, or of the hook. So no message causes another one.
--
-- p has numbers as text. Its keys crashes and retry_ms are for __breaker.sql. Nobody wants reports
-- if hook, mail_to (comma-separated) and print (the caller prints) are all missing. The keys queue
-- and timeout_ms are for the hook. The thresholds are late_ms, late_queues, dead, failing and
-- build_ratio; 0 is never. The key repeat_ms says when a report is repeated. Returns what was
-- reported now, and an address that is invalid. If nobody wants reports, returns what was paused
-- now, for the log.
create or replace function deferred.__alert(p json)
returns table (cause text, name text, text text, remedy text, note text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set jit = off set lock_timeout = '100ms'
set enable_seqscan = on set enable_bitmapscan = on set enable_sort = on
set enable_hashjoin = on set enable_nestloop = on
as $$
#variable_conflict use_column
declare
    v_first  boolean;
    v_fresh  boolean;
    v_builds boolean;
    v_wrong  text;
    v_to     text[];
    v        record;
begin
    select min(format('%s %s', quote_literal(left(a, 200)), w)) filter (where w is not null),
           coalesce(array_agg(a) filter (where w is null), '{}') into v_wrong, v_to
    from (select btrim(x) as a from unnest(string_to_array(p->>'mail_to', ',')) x) x
    cross join lateral deferred.__mail_address_wrong(a) w where a <> '';
    update deferred.__deferred_upkeep u set breakers_at = now()
    where u.ctid = any (array(select x.ctid from deferred.__deferred_upkeep x
                              where x.breakers_at not between now() - interval '50 seconds'
                                and now() for update skip locked));
    if found then
        perform deferred.__breaker((p->>'crashes')::bigint, (p->>'retry_ms')::bigint);
        return query
            select 'settings', 'alert.mail_to', 'setting alert.mail_to: ' || v_wrong,
                   'no alert is sent by mail until the address is correct: deferred.conf(5)',
                   null::text
            where v_wrong is not null;
    end if;
    if p->>'hook' is null and v_to = '{}' and p->>'print' is null then
        return query select a.cause::text, a.name::text, a.text, a.remedy, null::text
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
    perform deferred.__alert_dead((p->>'dead')::bigint, v_first),
            deferred.__alert_failing((p->>'failing')::double precision),
            deferred.__alert_absent();
    if v_builds then
        perform deferred.__alert_builds((p->>'build_ratio')::double precision);
    end if;
    update deferred.__deferred_alert a set ended_at = now()
    where a.ended_at is null and a.seen_at < now() and a.cause <> 'breaker'
      and (v_fresh or a.kind <> 'queue') and (v_builds or a.cause not in ('slower', 'bigger'));
    -- Producers choose the names of queues, so those go sooner.
    delete from deferred.__deferred_alert a
    where a.cause <> 'dead' and a.ended_at < now() - case a.kind when 'queue' then interval '1 day'
                                                          else interval '35 days' end;
    for v in
        select * from deferred.__alert_due((p->>'repeat_ms')::bigint * interval '1 millisecond')
    loop
        cause := v.cause; name := v.name; text := v.text; remedy := v.remedy;
        note := deferred.__alert_send(p, v_to, v.cause, v.name, v.text, v.remedy, v.names = '{}');
        update deferred.__deferred_alert a
        set reported_at = now(),
            counted = case when a.cause <> 'dead' then a.counted else coalesce((
                select t.dead from deferred.__deferred_series s
                join deferred.__deferred_sum t on t.span = 0 and t.series = s.id
                    and t.at = '-infinity'
                where (s.queue, s.fn, s.plugin) = ('*', a.name, '*')), a.counted) end
        where a.kind = v.kind and a.name = any (v.name || v.names) and a.ended_at is null;
        return next;
    end loop;
end
$$;
grant execute on function deferred.__alert to deferred_worker;
