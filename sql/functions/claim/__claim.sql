-- Claims ready jobs that no limit is about.
--
-- A lane holds the ready jobs of one queue at one priority, in the order of (xid, id). The xid of a
-- job is the transaction that made it ready. A claim does not write to the rows of jobs. It moves
-- the cursor of the lane, which all workers share, and stores one lease for the batch. So no claim
-- walks over jobs that others hold, or that have ended.
--
-- A cursor, a row of __deferred_cursor, has two snapshots. All jobs that are visible in `done` have
-- been handed out. Of the others that are visible in `cur`, those up to (xid, id) have been handed
-- out. When these are used up, `cur` becomes `done`, and the next claim takes a new `cur`. So a
-- transaction that commits late is not missed, and one that stays open for hours costs nothing.
--
-- A claim reads a window of the lane, chooses from it, and grants leases. Jobs that it reads and
-- leaves are stored in the rest of the cursor, each with its xid, and come first next time. A lease
-- holds a job while the xid of the job is visible in the snapshot of the lease. A job that is made
-- ready again has a new xid, so it is out of every lease and every rest. A claim commits
-- asynchronously: a crash of the server that loses the lease loses the move of the cursor too.
--
-- For example, transaction 7 and then 9 defer a job each, and 9 commits first:
--
--     event         done    cur       reads                               done then
--     9 commits
--     claim A       1:1:    7:10:7    the job of 9; 7 is open in cur      7:10:7
--     7 commits
--     claim B       7:10:7  10:10:    the job of 7, which was open in     10:10:
--                                     done; and from 10 on nothing
--
-- Claim B looks up each transaction that was open in `done`, and so finds the job of 7. Jobs of
-- later transactions are one range of the index.
--
-- Claims of a lane exclude each other by the lock of its newest cursor. A claim skips a locked lane
-- while another lane has jobs. Only a claim that has nothing waits. Each lane comes in three
-- rounds. In the first, lanes of one priority share what is wanted. In the second, lanes that have
-- more share what others could not give. In the third, a claim waits for a locked lane.
--
-- Each window has a lease of its own, with the snapshot it was read by. A later snapshot would hold
-- a job of both windows that was made ready again in between. A claim is a transaction of its own.
-- The results that a worker records must be durable, and must not be visible to its next claim in
-- part. The tests in tests/model explore every interleaving of all this.
--
-- Jobs that are stranded all the same, after a restored dump or a change by hand, are made ready
-- again by deferred.__repair().
create or replace function deferred.__claim(
    p_queues text[], p_n integer, p_window integer, p_worker bigint, p_lease_ms bigint,
    p_max_attempts integer, p_known text[], p_seed bigint, p_max_bytes integer,
    p_lane_queues text[], p_lane_priorities integer[], p_look boolean, p_singles integer,
    p_round text)
returns setof deferred.__claimed
language plpgsql
as $$
declare
    w          deferred.__window;
    v_of       deferred.__deferred_queue;
    v_lane     deferred.__lane;
    v_next     record;             -- lanes that were looked for
    v_left     integer := p_n;     -- jobs still wanted
    v_goal     integer;            -- and of these from the lane
    v_more     boolean := false;   -- some lane may have more
    v_held     boolean := false;   -- this claim holds the lock of a lane
    v_found    deferred.__claimed; -- what the last row says
    v_begun    timestamptz;
    v_look     interval;           -- time spent on lanes that had nothing
    v_said     text;
begin
    -- The lock of a lane must not be held for a flush.
    v_said := set_config('synchronous_commit', 'off', true);
    v_found.busy := false;
    v_found.cut := false;
    v_found.waiting := 0;
    w.used := 0;
    w.singles_left := p_singles;
    w.spare := 4000;
    if p_look then
        v_next := deferred.__lanes_round(p_queues, p_round, p_seed, p_known);
        p_lane_queues := p_lane_queues || v_next.queues;
        p_lane_priorities := p_lane_priorities || v_next.priorities;
    end if;
    v_look := clock_timestamp() - statement_timestamp();
    foreach v_lane in array deferred.__claim_lanes(p_lane_queues, p_lane_priorities, p_seed) loop
        exit when v_left = 0 or w.spare <= 0;
        continue when (v_lane.round = 2 and not v_more)
            or (v_lane.round = 3 and (v_left < p_n or v_held or not v_found.busy));
        v_begun := clock_timestamp();
        if not deferred.__lane_look(v_lane.queue, v_lane.priority) then
            v_look := v_look + (clock_timestamp() - v_begun);
            continue;
        end if;
        select q.* into v_of from deferred.__deferred_queue q where q.name = v_lane.queue;
        continue when deferred.__is_paused(v_of);
        w.queue := v_lane.queue;
        w.priority := v_lane.priority;
        w := deferred.__lane_lock(w, v_lane.round = 3);
        if w.seq is null then
            v_found.busy := true;
            continue;
        end if;
        v_held := true;
        v_of.visibility_timeout_ms := coalesce(v_of.visibility_timeout_ms, p_lease_ms);
        v_goal := case when v_lane.round = 1 then least(v_left, ceil(v_left * v_lane.share))
                       else v_left end;
        w.want := v_goal;
        -- The rest of `cur`, then a fresh one. Again, and of more, while jobs were put apart or are
        -- locked.
        for v_step in 1 .. 14 loop
            w := deferred.__claim_read(w, v_of, greatest(w.want, p_window)
                                                << greatest(0, v_step - 4),
                                       p_max_attempts, p_known);
            exit when w.idle;
            w := deferred.__claim_choose(w, p_window, p_seed, p_max_bytes);
            if w.picks is not null then
                w := deferred.__claim_grant(w, p_worker, v_of.visibility_timeout_ms);
                return query select c.* from deferred.__claim_rows(w, v_of) c;
            end if;
            v_found.cut := v_found.cut or w.cut;
            exit when w.want <= 0 or w.spare <= 0 or w.cut
                or (w.fresh and (w.aside = 0 or w.used_up));
        end loop;
        if w.moved then
            perform deferred.__lane_move(w);
        end if;
        v_left := v_left - v_goal + w.want;
        if w.want <= 0 then
            v_more := true;
            -- Those left, and where there is more, as many again as one claim looks at.
            v_found.waiting := v_found.waiting + cardinality(w.rest_id)
                + case when w.used_up then 0 else greatest(p_n, p_window) end;
        end if;
    end loop;
    v_found.busy := v_found.busy and not v_held;
    v_found.limits := deferred.__limited_jobs(p_queues);
    v_found.more := w.spare <= 0;
    v_found.look_us := extract(epoch from v_look) * 1000000;
    if p_look and not v_found.more then
        v_found.round := v_next.round;
    end if;
    return next v_found;
end
$$;
grant execute on function deferred.__claim to deferred_worker;
