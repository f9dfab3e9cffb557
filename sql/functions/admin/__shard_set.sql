-- Gives the database its number among several; part of deferred migrate --shard. Makes this the
-- database with a number among several: its ids are from number * 10^13 + 1 on, so that each tells
-- where its job is. For good: a job keeps its id.
--
-- While the sequence is being altered nobody gets an id from it: whoever waits for one gets one of
-- the new ones.
create or replace function deferred.__shard_set(number integer) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids  constant bigint := 10000000000000;
    v_last bigint;
    v_used boolean;
begin
    if number between 1 and 899 is not true then
        raise exception using errcode = '22023',
            message = format('shard number %s is out of range', number),
            hint = 'use 1 to 899';
    end if;
    perform from deferred.__deferred_upkeep for update;
    alter sequence deferred.__deferred_id_seq no cycle;  -- nothing new, but its lock
    select s.last_value, s.is_called into v_last, v_used from deferred.__deferred_id_seq s;
    if v_last / v_ids = number then
        return false;
    elsif v_last >= v_ids then
        raise exception using errcode = '55000',
            message = format('shard %2$s: the database is shard %1$s already',
                             v_last / v_ids, number),
            hint = 'correct conninfo or number of the shard in the config file';
    elsif v_used or exists (select from deferred.__deferred) then
        raise exception using errcode = '55000',
            message = format('shard %s: the database has given out job ids already', number),
            hint = 'use a new database for the shard; keep this one with --db until its last job '
                   'is done';
    end if;
    execute
        format('alter sequence deferred.__deferred_id_seq minvalue %s maxvalue %s start %1$s '
               'restart', number * v_ids + 1, (number + 1) * v_ids - 1);
    perform deferred.maintain();
    return true;
end
$$;
