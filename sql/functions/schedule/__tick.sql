create or replace function deferred.__tick(most integer, out dealt integer, out wait_ms bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    -- while nothing that was put off could be dealt with: it is not looked at all the time
    v_least constant bigint := 100;
    v_at    timestamptz;
begin
    dealt := deferred.__tick_at(most,
                                clock_timestamp()) + deferred.__flow_retry_some() +
                                    deferred.__settle(1000);
    select greatest(0, ceil(extract(epoch
                                    from s.next_tick - clock_timestamp()) * 1000)) into wait_ms
    from deferred.__deferred_state s where s.next_tick < 'infinity' order by s.next_tick limit 1;
    if pg_relation_size('deferred.__deferred_ended')
       + pg_relation_size('deferred.__deferred_awaited') > 0 then
        v_at := deferred.__settle_due();
    end if;
    v_at := least(v_at, (select min(r.not_before) from deferred.__deferred_flow_retry r
                         where r.ended_at is null));
    if v_at is not null then
        -- Notes that are left though none could be taken are in the hands of somebody else.
        wait_ms := case when v_at = '-infinity' then least(wait_ms,
            case when dealt = 0 then v_least else 0 end) else
            least(wait_ms, greatest(case when dealt = 0 then v_least else 0 end,
                                    ceil(extract(epoch from v_at - clock_timestamp()) * 1000))) end;
    end if;
end
$$;
comment on function deferred.__tick(integer) is
    'stores jobs for due ticks of schedules, and processes notes of ended jobs. Returns how many '
    'it processed, and the milliseconds until the next one. NULL: there is none.';
grant execute on function deferred.__tick(integer) to deferred_worker;
