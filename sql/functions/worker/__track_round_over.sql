-- Begins the next round of a group if all live tracks made the steps of p_round, as the caller did.
-- True: p_round is over. The usual answer, no, costs a look and no lock.
create or replace function deferred.__track_round_over(p_group text, p_worker bigint,
                                                       p_round bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_group deferred.__deferred_group;
begin
    if exists (select from deferred.__deferred_track t
               where t.group_name = p_group and t.worker <> p_worker
                 and t.lease_until > clock_timestamp()
                 and (t.round < p_round
                      or t.made < (select g.steps from deferred.__deferred_group g
                                   where g.name = p_group and g.round = p_round))
                 and exists (select from deferred.__deferred_worker w
                             where w.id = t.worker and w.ended_at is null)) then
        return false;
    end if;
    select * into v_group from deferred.__deferred_group g
    where g.name = p_group for update skip locked;
    if not found or v_group.round <> p_round then
        return found;
    end if;
    perform deferred.__track_bury(p_group, p_worker);
    if exists (select from deferred.__deferred_track t
               where t.group_name = p_group and t.worker <> p_worker
                 and (t.round < p_round or t.made < v_group.steps)) then
        return false;
    end if;
    update deferred.__deferred_group g
    set round = g.round + 1,
        steps = (select min(t.range) from deferred.__deferred_track t where t.group_name = p_group)
    where g.name = p_group;
    return true;
end
$$;
