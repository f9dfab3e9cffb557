-- job_claim: take up to $3 jobs among the first $2 ready ones, half of them the first, half at random.
-- $1 queues served, text[]; NULL: all
-- $2 window: jobs of a queue looked at, int4 $3 jobs taken at most, int4
-- $4 worker id, int8                       $5 receipt of this claim, int8
-- $6 lease in milliseconds, int8           $7 functions this worker has, text[]; NULL: whatever they are
-- $8 ids still held from earlier claims, int8[]
-- $9 seed of the random choice, int8
-- $10..$16 the parts of the index to be read, in their order (lib/base/cursor.h), arrays in step: queue text[], highest
--   priority int4[], lowest priority int4[], first transaction xid8[] (NULL: a gap), first id in it int8[], transaction
--   to stop before xid8[], transaction that must have ended xid8[] (NULL: none). A queue not named is read whole. A claim that must
--   not miss any ready job has them begin at what is live
-- $17 1: pass over what lies before the jobs that others hold (deferred.__front), int4; 2 or 3: and over those of the other
--   half of the jobs, which another worker claims at the same time. A claim that must not miss any ready job says 0 here
-- $18 where the last claim left the row of the worker, text; NULL: not known
-- $19 jobs drawn, of which the first $3 that nobody has locked are taken, int4
-- $20 bytes of params, int4: jobs are taken up to that, and one at least
-- returns one row a job: id (int8), attempt (int4), attempt_base (int4), max_attempts (int4), timeout_ms (int8),
--   backoff_floor_ms (int8), backoff_ceiling_ms (int8), backoff_exponent (float8), created_at (timestamptz),
--   wait_us (int8), fn, label, params, queue, priority (int4), lease in milliseconds (int8),
--   and in each row: jobs seen in the window (int8), some ids among them to be put right first (int8[], see
--   job_lapsed.sql; NULL: none), there may be jobs for job_claim_limited.sql too (bool), $18 for the next claim (text), some were
--   left for their params (bool). None taken: one row, all NULL but these five; jobs seen then means that others were quicker, and asking again makes sense
-- locks: the rows taken; rows locked by others are passed over, so no claim waits for a row.
-- Index: __deferred_hot_ready, then by tid; the update changes no indexed column (HOT).
--
-- Higher priorities come first. Within one, queues share a claim by their weight, whatever their length: each draws a
-- random start, which has claims of one job shared as well, and then steps of 1/weight. Where there is one queue, nothing is
-- shared (10 us a job instead of 12).
-- All at random, some jobs would stay behind for a dozen claims, and under a held snapshot each claim would walk over all that died
-- after the first of them: 31 entries of the index for each job claimed instead of 7. All in order, claims at the same time would draw
-- the same jobs.
-- A job that a limit is about, but that was deferred before that limit was set, is marked for job_claim_limited.sql
-- instead of taken. What queues and functions are set to is read from lists made once a claim, and mostly empty.
-- "due_at is null" is not put so in the step that goes by tid: the planner would take the partial index for it.
-- Rows are joined by tid arrays rather than one by one, and only what the last step needs travels through the others:
-- the steps cost more than the rows (13 us a job instead of 20). Not so where they are locked: for each row that somebody
-- has taken since the snapshot PostgreSQL would sort the whole array again (4 workers with batches of 2,000 came to
-- 9,000 jobs/s, and their transactions to 0.8 s).
with queue as materialized (
    select n.name, n.known, coalesce(q.weight, 1) as weight, -ln((1 + (hashtextextended(n.name, $9::int8) & 1048575)) / 1048577.0::float8) as head_start,
           q.visibility_timeout_ms is not null as leased, coalesce(q.max_running, q.rate) is not null as limited,
           greatest(q.params_max_bytes, 1048576) as params_max_bytes,
           num_nonnulls(q.max_attempts, q.backoff_floor_ms, q.backoff_ceiling_ms, q.backoff_exponent, q.visibility_timeout_ms) > 0 as special
    from deferred.__claim_queues($1::text[], $10::text[]) n
    -- By its name, whatever the planner takes the table for; a queue without a row has no settings.
    left join lateral (select x.* from deferred.__deferred_queue x where x.name = n.name limit 1) q on true
    where q.paused is not true),
segment as materialized (
    select s.queue, s.high, s.low, coalesce(f.xid, s.from_xid) as from_xid, coalesce(f.id, s.from_id) as from_id, s.until_xid
    from unnest($10::text[], $11::int4[], $12::int4[], $13::xid8[], $14::int8[], $15::xid8[], $16::xid8[])
        as s(queue, high, low, from_xid, from_id, until_xid, hole)
    cross join deferred.__front(case when $17::int4 > 0 and s.hole is null then s.queue end, s.high, s.from_xid, s.from_id, s.until_xid, $17::int4 - 2) f
    where s.hole is null or pg_visible_in_snapshot(s.hole, pg_current_snapshot())),
seen as materialized (
    select f.tid, f.priority, f.id, f.plain, f.n, q.name, q.weight, q.head_start
    from queue q
    cross join lateral (
        select x.tid, x.priority, x.id, x.plain, row_number() over () as n
        from (
            select s.* from segment s where q.known and s.queue = q.name
            union all
            select q.name, 32767, -32768, null, null, null where not q.known) s
        cross join lateral (
            (select h.ctid as tid, h.priority, h.id, h.receipt is null and (h.expires_at is null or h.expires_at > now()) as plain
             from deferred.__deferred_hot h
             where h.queue = s.queue and h.priority = s.high and h.due_at is null and not h.limited
               and (h.xid, h.id) >= (s.from_xid, s.from_id) and h.xid < s.until_xid
               and ($17::int4 < 2 or (hashint8(h.id) & 1) = $17::int4 - 2)
               and h.visible_at <= now() and h.fn is not null and ($7::text[] is null or h.fn = any ($7::text[]))
             order by h.xid, h.id limit $2::int4)
            union all
            (select h.ctid, h.priority, h.id, h.receipt is null and (h.expires_at is null or h.expires_at > now())
             from deferred.__deferred_hot h
             where s.from_xid is null and h.queue = s.queue and h.priority between s.low and s.high and h.due_at is null
               and not h.limited
               and h.visible_at <= now() and h.fn is not null and ($7::text[] is null or h.fn = any ($7::text[]))
             order by h.priority desc, h.xid, h.id limit $2::int4)) x
        limit $2::int4) f),
pick as materialized (
    (select s.tid from seen s where s.plain and (select count(*) < 2 from queue)
     order by s.priority desc, s.n > $19::int4 / 2, hashint8extended(s.id, $9::int8) limit $19::int4)
    union all
    (select p.tid
     from (select s.tid, s.priority, s.weight, s.head_start,
                  row_number() over (partition by s.name, s.priority
                                     order by s.n > $19::int4 / 2 / (select count(*) from queue), hashint8extended(s.id, $9::int8)) as n
           from seen s where s.plain and (select count(*) > 1 from queue)) p
     order by p.priority desc, (p.n - 1 + p.head_start) / p.weight
     limit $19::int4)),
-- What params are compressed to says little of what they come to, and reading them would be the cost that is to be bounded.
row as materialized (
    select r.*, d.max_attempts, d.timeout_ms, d.backoff_floor_ms, d.backoff_ceiling_ms, d.backoff_exponent, d.created_at, d.fn, d.label, d.params,
           case when r.stray then 0 when pg_column_compression(d.params) is null then coalesce(pg_column_size(d.params), 1)
                else least(pg_column_size(d.params)::int8 * 256, (select max(q.params_max_bytes) from queue q))::int4 end as bytes
    from (select h.ctid as tid, h.id, h.attempt, h.attempt_base, h.visible_at, h.priority, h.queue,
                 h.fn = any (array(select f.name from deferred.__deferred_function f))
                 or h.queue = any (array(select q.name from queue q where q.limited)) as stray
          from pick p join deferred.__deferred_hot h on h.ctid = p.tid
          where not h.limited
            and coalesce(h.due_at, '-infinity') = '-infinity' and h.visible_at <= now() and h.receipt is null
          limit $3::int4 for update of h skip locked) r
    left join deferred.__deferred d on d.id = r.id),
-- Those that are left for their params: mostly none, and then nobody adds them up one by one.
over as materialized (
    select x.id from (select r.id, r.bytes, sum(r.bytes) over (rows unbounded preceding) as upto from row r
                      where not r.stray and (select sum(r.bytes) > $20::int4 from row r)) x
    where x.upto > x.bytes and x.upto > $20::int4),
taken as (
    update deferred.__deferred_hot h
    set attempt = h.attempt + 1, receipt = $5::int8, worker = $4::int8, started_at = now(),
        visible_at = now() + coalesce(case when (select exists (select from queue q where q.leased))
            then (select q.visibility_timeout_ms from deferred.__deferred_queue q where q.name = h.queue) end, $6::int8) * interval '1 millisecond'
    where h.ctid = any (array(select r.tid from row r where not r.stray and r.id <> all (array(select o.id from over o))))),
strays as (
    update deferred.__deferred_hot h set limited = true where h.ctid = any (array(select r.tid from row r where r.stray))),
marked as (
    update deferred.__deferred_queue q set limited_jobs = true
    where not q.limited_jobs and q.name = any (array(select r.queue from row r where r.stray))),
held as (
    update deferred.__deferred_worker w
    set seen_at = now(), held = $8::int8[] || array(select r.id from row r where not r.stray and r.id <> all (array(select o.id from over o)))
    -- By its id only if it is not found in its place: under a held snapshot the index leads to all its dead versions.
    where w.ctid = coalesce((select o.ctid from deferred.__deferred_worker o where o.ctid = $18::text::tid and o.id = $4::int8),
                            (select o.ctid from deferred.__deferred_worker o where o.id = $4::int8))
    returning w.ctid::text as place)
select r.id, r.attempt + 1, r.attempt_base, coalesce(r.max_attempts, q.max_attempts), r.timeout_ms,
       coalesce(r.backoff_floor_ms, q.backoff_floor_ms), coalesce(r.backoff_ceiling_ms, q.backoff_ceiling_ms),
       coalesce(r.backoff_exponent, q.backoff_exponent), r.created_at, (date_part('epoch', now() - r.visible_at) * 1000000)::int8,
       r.fn, r.label, r.params, r.queue, r.priority::int4, case when r.id is not null then coalesce(q.visibility_timeout_ms, $6::int8) end,
       s.n, s.odd, (select deferred.__limited_jobs($1::text[])) or exists (select from row r where r.stray),
       (select w.place from held w), exists (select from over)
from (select count(*) as n, (array_agg(s.id) filter (where not s.plain))[1:200] as odd from seen s) s
left join (row r
    -- Nobody is asked where no queue has such settings.
    left join lateral (
        select o.max_attempts, o.backoff_floor_ms, o.backoff_ceiling_ms, o.backoff_exponent, o.visibility_timeout_ms
        from deferred.__deferred_queue o
        where o.name = r.queue and (select exists (select from queue a where a.special))
        offset 0) q on true) on not r.stray and r.id <> all (array(select o.id from over o)) and r.fn is not null
