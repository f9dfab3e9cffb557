-- Claims up to p_n jobs that limits are about: of their queue, their function or their key. One
-- call in a transaction, and the last thing in it but the commit.
--
-- A hot job that a limit may hold back carries a mark (limited) and lies in indexes of its own.
-- Claims of other jobs neither see nor lock anything of it. Marked jobs are claimed here. A claim
-- reads which lanes and keys have jobs, locks their limits, chooses as these allow, and grants
-- leases (sql/functions/claim/__claim.sql). If nothing but keys limits the jobs that were found,
-- one statement does all that follows the locks. If it takes no job, the long way finds out why.
--
-- A claim takes at most p_run jobs of a key that allows one at once: a run. The worker starts each
-- of them when the one before has succeeded, and gives the others back if it has not. No other
-- claim takes a job of the key until all of them have been recorded or given back. Where limits of
-- other kinds matter, a claim takes one job of such a key.
--
-- Each limit in play has a row of __deferred_limit. While it is locked, that row is exact about
-- running jobs and tokens. Running jobs are looked up, not counted up and down. A job listed in the
-- row counts while its hot row says that it is claimed. So the end of a claim frees its place, even
-- if the worker was killed. The claim does not wait for a row that another session has locked. Then
-- it takes no job under this limit, and `seen` says that asking again makes sense.
--
-- Each step has snapshots of its own, later than those before. A job that was changed since it was
-- chosen lies elsewhere (ctid), and is not taken. No other row can have come to its old place. The
-- statement that calls this function has a snapshot, and until it ends no row is removed that was
-- there during it.
create or replace function deferred.__claim_limited(
    p_queues text[], p_n integer, p_rated integer, p_worker bigint, p_lease_ms bigint,
    p_max_attempts integer, p_known text[], p_seed bigint, p_max_bytes integer, p_singles integer,
    p_round text, p_run integer default 1)
returns table (
    id bigint, receipt bigint, attempt integer, attempt_base integer, max_attempts integer,
    timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint,
    backoff_exponent double precision, created_at timestamptz, ready_since timestamptz, fn text,
    label text, params json, queue text, priority integer, lease_ms bigint, alone boolean,
    tick timestamptz, previous_tick timestamptz, traceparent text, parents boolean, tid tid,
    claimed_at timestamptz, seen bigint, wait_ms bigint, start_ms bigint, round text,
    key integer)
language plpgsql
as $$
#variable_conflict use_column
declare
    w deferred.__limited;
    -- The worker counts the time to a start from the moment it sent the transaction, which may have
    -- been at other things first.
    v_spent_ms bigint;
begin
    w := deferred.__limited_read(p_queues, p_n, p_known, p_seed, p_round, p_run);
    if not w.idle then
        w := deferred.__limited_keyed(w, p_max_attempts, p_max_bytes);
        if w.keyed then
            return query
            select t.* from deferred.__limited_taken(w, p_worker, p_lease_ms) t;
            if found then
                return;
            end if;
        end if;
        if p_run > 1 then
            select array_agg(k.tid), array_agg(k.at) into w.key_tids, w.key_at
            from unnest(w.key_tids, w.key_at, w.key_places) k(tid, at, place) where k.place = 1;
        end if;
        w := deferred.__limited_lock(w);
        w := deferred.__limited_choose(w, p_n, p_rated, p_seed);
        if w.tids is not null then
            w := deferred.__limited_hold(w, p_lease_ms, p_max_attempts, p_max_bytes, p_singles);
            w := deferred.__limited_grant(w, p_worker);
        end if;
        v_spent_ms := floor(extract(epoch from w.now - now()) * 1000);
    end if;
    if w.ids is not null then
        return query
        select j.id, j.receipt, least(j.attempt, 2147483646) + 1, j.attempt_base,
               coalesce(d.max_attempts, q.max_attempts), d.timeout_ms,
               coalesce(d.backoff_floor_ms, q.backoff_floor_ms),
               coalesce(d.backoff_ceiling_ms, q.backoff_ceiling_ms),
               coalesce(d.backoff_exponent, q.backoff_exponent), d.created_at, j.ready_since,
               coalesce(d.fn, j.fn)::text, d.label, d.params, j.queue, j.priority, j.lease_ms,
               nullif(j.single, false), d.tick, d.previous_tick, d.traceparent, j.parents, j.tid,
               now(), w.seen, w.wait_ms,
               case when j.rate is not null then
                   greatest(40, least(86400000, floor(800 / j.rate)))::bigint + v_spent_ms end,
               w.round, null::integer
        from unnest(w.ids, w.receipts, w.attempts, w.attempt_bases, w.ready_since, w.job_queues,
                    w.priorities, w.job_fns, w.lease_ms, w.singles, w.parents, w.tids, w.rates)
            with ordinality j(id, receipt, attempt, attempt_base, ready_since, queue, priority, fn,
                              lease_ms, single, parents, tid, rate, n)
        left join lateral deferred.__call(j.id, w.first, w.last) d on true
        left join deferred.__deferred_queue q on q.name = j.queue
        order by j.n;
    elsif w.more or not w.idle or w.wait_ms is not null then
        seen := coalesce(w.seen, 0);
        wait_ms := w.wait_ms;
        round := w.round;
        return next;
    end if;
end
$$;
grant execute on function deferred.__claim_limited to deferred_worker;
