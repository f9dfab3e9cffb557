create or replace function deferred.maintain() returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
as $$
declare
    v_made  integer := 0;
    v_week  date;
    v_utc   constant text := 'UTC';
begin
    perform deferred.__forget_keys(1000);
    perform deferred.__keys_sweep(100);
    perform deferred.__age_jobs(1000);
    -- After a restore into another cluster jobs do not wait for five minutes.
    update deferred.__deferred_upkeep u
    set repaired_xid = case when deferred.__adopt(100000) then pg_current_xact_id()
                            else u.repaired_xid end,
        repaired_at = '-infinity'
    where u.ctid = any (array(select x.ctid from deferred.__deferred_upkeep x
                              where x.repaired_xid > pg_snapshot_xmax(pg_current_snapshot())
                              for update skip locked));
    update deferred.__deferred_upkeep u
    set repaired_at = now(), repaired_xid = greatest(u.repaired_xid, pg_current_xact_id()),
        room_until = 0  -- computed again: a partition may have been deleted
    where u.ctid = any (array(select x.ctid from deferred.__deferred_upkeep x
                              where x.repaired_at < now() - interval '5 minutes'
                              for update skip locked));
    if found then
        perform deferred.__repair(500, 10000);
        perform deferred.__patterns_missed();
        perform deferred.__forget_offers();
        perform deferred.__work_forget();
        perform deferred.__forget_events(10000);
        perform deferred.__forget_spooled(100000);
        perform deferred.__api_sweep(300000);
        perform deferred.__known_again(array(select o.fn from deferred.__offered o));
    end if;
    update deferred.__deferred_upkeep u set schedules_at = now()
    where u.ctid = any (array(select x.ctid from deferred.__deferred_upkeep x
                              where x.schedules_at not between now() - interval '1 minute' and now()
                              for update skip locked));
    if found then
        perform deferred.__schedule_check(200);
    end if;
    perform deferred.__unrestrict();
    -- The common case costs a catalog look-up and takes no lock.
    if to_regclass(format('deferred.%I',
                          '__deferred_log_' || to_char(date_trunc('week',
                              now() at time zone v_utc) + interval '3 weeks',
                              'YYYYMMDD'))) is not null then
        return deferred.__id_room(0);
    end if;
    -- A row, not an advisory lock, which anybody who can connect could hold.
    perform from deferred.__deferred_upkeep for update skip locked;
    if not found then return 0; end if;

    for i in 0..4 loop  -- a month ahead: a week without maintenance leaves no gap
        v_week := (date_trunc('week', now() at time zone v_utc) + i * interval '1 week')::date;
        if to_regclass(format('deferred.%I', '__deferred_log_' || to_char(v_week,
            'YYYYMMDD'))) is null then
            perform deferred.__add_partition('__deferred_log',
                                             '__deferred_log_' || to_char(v_week, 'YYYYMMDD'),
                                             'finished_at',
                v_week || ' 00:00:00+00', (v_week + 7) || ' 00:00:00+00',
                v_week < (now() + interval '1 hour') at time zone v_utc);
            v_made := v_made + 1;
        end if;
    end loop;

    return v_made + deferred.__id_room(0);
exception when lock_not_available then
    return 0;  -- somebody reads for long: the next call does it, weeks before it matters
end
$$;
comment on function deferred.maintain() is
    'adds the partitions the next weeks need; returns how many; cheap to call often';
grant execute on function deferred.maintain() to deferred_worker, deferred_purger;
