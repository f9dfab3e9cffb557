-- Folding adds a slice of the log to the sums by minute, by hour and since ever. It is not on the
-- path of a job, which pays only for an index.
--
-- A session that folds locks the row of __deferred_folded, and other sessions skip. The row moves
-- in the transaction that adds, so each log row is counted once, whatever is killed. Attempts are
-- taken by the time they ended, up to two seconds ago. A worker that had lost its server, or a long
-- transaction, can record an attempt later. So each minute is compared with the log when it is 70
-- minutes old. If the log has more rows, the minute is summed again; if it has fewer, there was a
-- purge, and the sums stay. A clock that was set back has these minutes compared too. Arrivals are
-- counted by id, up to those of ten seconds ago; a job of a transaction that stayed open longer is
-- not counted.
--
-- A slice has a limited number of rows, because a reader has one second for it. For the same reason
-- a reader leaves a minute of very many rows to a worker or `deferred fold`, which have no limit.
--
-- A step that is small in one slice is large in the next, and no statistics say so. So joins are
-- hash joins, whatever a worker has set; only the look-ups by id stay as they are.
--
-- Runs with the rights of the owner, because nobody else can write the sums. Not granted to
-- viewers: the row stays locked until their transaction ends, and would stop sums and alerts.
create or replace function deferred.__fold(out attempts bigint, out arrived bigint,
                                           out behind_ms bigint, out done boolean, out busy boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set jit = off set lock_timeout = '100ms' set work_mem = '16MB'
set plan_cache_mode = force_generic_plan
set enable_seqscan = on set enable_bitmapscan = on set enable_sort = on set enable_hashjoin = on
set enable_mergejoin = off set enable_nestloop = off
as $$
declare
    -- With half as many each costs half as much again, because a slice has as many groups.
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
        perform deferred.__fold_housekeeping(v.sampled_at, v_now);
        v.sampled_at := v_now;
    end if;
    if v.folded_to > v_now then
        v.exact_to := least(v.exact_to, date_bin('1 minute', v_now, v_epoch));
    end if;

    -- Otherwise the LIMIT makes the planner read all of the log up to there.
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
grant execute on function deferred.__fold to deferred_worker;
