-- Folding: what the log has is added to the sums by minute, by hour and since ever, a slice in each
-- call; off the path of a job, which pays for an index alone.
--
-- Whoever folds has the row of __deferred_folded locked, and others go on with what there is. It
-- moves in the transaction that adds, so each log row is counted once, whatever is killed. Attempts
-- are taken by the time they ended, up to two seconds ago; what is recorded later than that (a
-- worker that had lost its server, a long transaction of deferred.finish()) is missed at first. So
-- each minute is counted again when it is 70 minutes old, and where the log has more rows of it
-- than were summed, it is summed anew and the difference added to hours and totals. Where the log
-- has fewer, somebody purged: the sums stay. A clock that was set back has these minutes counted
-- again, too. Arrivals are counted by id, up to those of ten seconds ago; a job of a transaction
-- that stayed open longer is missing there, and there alone.
--
-- A slice has so many rows at most, and is looked for before it is begun: who reads has a second
-- for it, and would be stopped in the same slice each time. For that reason he leaves a minute of
-- very many, which is counted again as a whole, to a worker or `deferred fold`, who have no limit.
--
-- What is small in one slice is large in the next, and no statistics tell: so joins are made by
-- hash, whatever a worker has set for statements of its own; the look-ups by id, which can be done
-- one way only, stay what they are.
--
-- Runs with the rights of the owner, for nobody else can write the sums. Not for viewers: the lock
-- of the row stays until their transaction ends, and would stop sums, samples and alerts.
create or replace function deferred.__fold(out attempts bigint, out arrived bigint,
                                           out behind_ms bigint, out done boolean, out busy boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set jit = off set lock_timeout = '100ms' set work_mem = '16MB'
set plan_cache_mode = force_generic_plan
set enable_seqscan = on set enable_bitmapscan = on set enable_sort = on set enable_hashjoin = on
set enable_mergejoin = off set enable_nestloop = off
as $$
declare
    -- of a slice, about: with half as many each costs one and a half times as much, for its groups
    -- are as many
    v_rows   constant bigint := 20000;
    v_epoch  constant timestamptz := '2000-01-01 00:00+00';
    v        deferred.__deferred_folded;
    v_now    timestamptz := clock_timestamp();
    v_end    timestamptz := v_now - interval '2 seconds';
    v_to     timestamptz;
    v_count  bigint;
    v_id_end bigint;
    v_id_to  bigint;
begin
    attempts := 0; arrived := 0; behind_ms := 0; done := true; busy := true;
    select f.* into v from deferred.__deferred_folded f for update skip locked;
    if not found then
        return;
    end if;
    busy := false;
    if v.sampled_at not between v_now - interval '1 minute' and v_now then
        perform deferred.__fold_aside(v.sampled_at, v_now);
        v.sampled_at := v_now;
    end if;
    if v.folded_to > v_now then
        v.exact_to := least(v.exact_to, date_bin('1 minute', v_now, v_epoch));
    end if;

    -- or a LIMIT would have all of the log read up to there
    perform set_config('enable_seqscan', 'off', true);
    loop
        v_to := greatest(v.folded_to, least(v_end, v.folded_to + v.slice));
        select count(*) into v_count
        from (select from deferred.__deferred_log l where l.finished_at >= v.folded_to
              and l.finished_at < v_to limit 2 * v_rows) x;
        exit when v_count < 2 * v_rows or v.slice <= interval '10 milliseconds';
        v.slice := (v_to - v.folded_to) / 4;
    end loop;
    perform set_config('enable_seqscan', 'on', true);
    v_id_end := deferred.__fold_id(v.id_to, v_now - interval '10 seconds');
    v_id_to := least(v_id_end, (select min(d.id) from deferred.__deferred d
                                where d.id > v.id_to) + v_rows);
    v_id_to := coalesce(v_id_to, v.id_to);
    if v_to > v.folded_to or v_id_to > v.id_to then
        select s.attempts, s.arrived into attempts, arrived
        from deferred.__fold_slice(v.folded_to, v_to, false, v.id_to, v_id_to) s;
    end if;
    if attempts < v_rows / 4 and v_to < v_end then
        v.slice := least(v.slice * 4, interval '1 day');
    end if;
    v.folded_to := v_to;
    v.id_to := v_id_to;
    done := v_to >= v_end and v_id_to >= v_id_end;
    if done then
        v_to := date_bin('1 minute', v_now - interval '70 minutes', v_epoch);
        v.exact_to := greatest(v.exact_to, v_to - interval '7 days');
        if v.exact_to < v_to then
            v_to := deferred.__fold_check(v.exact_to, v_to, v_rows,
                                          case when current_setting('statement_timeout') <> '0'
                                                   then 2 * v_rows end);
            done := v_to > v_now - interval '72 minutes' or v_to = v.exact_to;
            v.exact_to := v_to;
        end if;
    end if;
    update deferred.__deferred_folded f
    set folded_to = v.folded_to, exact_to = v.exact_to, id_to = v.id_to, slice = v.slice,
        sampled_at = v.sampled_at;
    behind_ms := greatest(extract(epoch from v_now - v.folded_to) * 1000, 0);
end
$$;
comment on function deferred.__fold() is
    'adds a slice of the log to the sums; returns what it added, how far the sums are behind, '
    'whether all is done, and whether somebody else is at it';
grant execute on function deferred.__fold() to deferred_worker;
