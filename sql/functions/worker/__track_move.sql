-- A worker reports the steps it made, and learns how many it may make. Invariants, r being the
-- round of the group:
--
-- 1. A live track is in round r, or does not know yet that round r began and is in r - 1 with all
--    steps made. A worker begins no attempt beyond the steps of the round that it knows. So each
--    live track stands between the beginning and the end of round r. No two differ by more than the
--    steps of a round.
-- 2. The round ends when each live track has reported all its steps. A worker reports attempts that
--    have begun for good. The report may lag behind, and then other workers wait a moment longer.
-- 3. Only the worker itself moves its track. Other workers remove a track only after its lease has
--    passed or its registration has ended. If the row is locked, its worker is reporting and so is
--    alive.
-- 4. A worker that joins, removes a track or ends a round holds the row of the group. So no round
--    ends while another worker joins.
-- 5. A worker that comes back in the round in which it left continues where it was. In a later
--    round it starts at the beginning.
--
-- No worker waits for a lock: one that does not get it is asked to try again. A report within a
-- round writes only its own row. Asking again, while other workers are behind, writes nothing until
-- a third of the lease has passed.
create or replace function deferred.__track_move(p_worker bigint, p_group text, p_range integer,
                                                 p_lease_ms bigint,
                                      p_round bigint, p_made integer,
                                      out live boolean, out round bigint, out steps integer,
                                      out made integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease interval := p_lease_ms * interval '1 millisecond';
    v_track deferred.__deferred_track;
begin
    live := false;
    if p_lease_ms = 0 then
        delete from deferred.__deferred_track t where t.worker = p_worker;
        return;
    end if;

    select * into v_track from deferred.__deferred_track t where t.worker = p_worker;
    if not found or v_track.group_name <> p_group or v_track.lease_until <= clock_timestamp() then
        -- Join, or join again.
        insert into deferred.__deferred_group (name, steps) select p_group, p_range
        where not exists (select from deferred.__deferred_group g where g.name = p_group)
            on conflict do nothing;
        perform from deferred.__deferred_group g where g.name = p_group for update skip locked;
        if not found then
            return;
        end if;
        perform deferred.__track_bury(p_group, p_worker);
        update deferred.__deferred_group g
        set steps = case when exists (select from deferred.__deferred_track t
                                      where t.group_name = p_group and t.worker <> p_worker)
                         then g.steps else p_range end
        where g.name = p_group
        returning g.round, g.steps into round, steps;
        made := case when p_round = round then least(p_made, steps) else 0 end;
        insert into deferred.__deferred_track as t (worker, group_name, range, since, round, made,
                                                    lease_until)
        values (p_worker, p_group, p_range, round, round, made, clock_timestamp() + v_lease)
        on conflict (worker) do update
        set group_name = excluded.group_name, range = excluded.range, since = excluded.since,
            round = excluded.round,
            made = excluded.made, lease_until = excluded.lease_until;
        live := true;
        return;
    end if;

    select g.round, g.steps into round, steps from deferred.__deferred_group g
    where g.name = p_group;
    made := case when v_track.round = p_round then least(p_made, steps) else v_track.made end;
    if v_track.round < round then
        made := 0;
    elsif made >= steps and deferred.__track_round_over(p_group, p_worker, round) then
        select g.round, g.steps into round, steps from deferred.__deferred_group g
        where g.name = p_group;
        made := 0;
    end if;
    live := true;
    if v_track.round <> round or v_track.made <> made or v_track.range <> p_range
       or v_track.lease_until < clock_timestamp() + v_lease * (2.0 / 3) then
        update deferred.__deferred_track t
        set round = __track_move.round, made = __track_move.made, range = p_range,
            lease_until = clock_timestamp() + v_lease
        where t.worker = p_worker;
        live := found;  -- somebody took it for dead just now: join again
    end if;
end
$$;
grant execute on function deferred.__track_move to deferred_worker;
