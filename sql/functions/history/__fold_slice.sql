-- Adds attempts that ended in [p_from, p_to), and jobs deferred with ids in (p_id_from, p_id_to],
-- to the sums. Part of deferred.__fold(), which holds the lock. If p_again is true, these minutes
-- were summed before and are replaced. Returns the number of attempts and of arrivals.
--
-- Attempts are first grouped by outcome, by wait and by run time, which leaves some hundred groups.
-- Each group counts for four series: of its queue, function and build, of its queue, of its
-- function, and of all. Once there are 20,000 series, a new function counts as function +.
create or replace function deferred.__fold_slice(
    p_from timestamptz, p_to timestamptz, p_again boolean, p_id_from bigint, p_id_to bigint,
    out attempts bigint, out arrived bigint)
language plpgsql
as $$
declare
    v_full    boolean := coalesce((select max(s.id) >= 20000 from deferred.__deferred_series s),
                                  false);
    v_minutes deferred.__deferred_sum[];
begin
    if p_again then
        perform deferred.__fold_add(array(select s from deferred.__deferred_sum s where s.span = 1
                                          and s.at >= p_from and s.at < p_to), -1);
    end if;
    with row as materialized (
        select * from deferred.__fold_attempts(p_from, p_to)),
    caller as (
        insert into deferred.__deferred_caller as c (fn, creator, crashed_at, other_at)
        select r.fn, r.creator, max(r.at) filter (where r.outcome = 'crashed'),
               max(r.at) filter (where r.outcome <> 'crashed')
        from row r
        where r.fn <> '' and r.creator is not null
          and r.outcome in ('crashed', 'ok', 'failed', 'timeout', 'cancelled', 'snoozed')
        group by r.fn, r.creator
        on conflict (fn, creator) do update
        set crashed_at = greatest(c.crashed_at, excluded.crashed_at),
            other_at = greatest(c.other_at, excluded.other_at)),
    seen as materialized (
        select r.at, r.queue, r.fn, r.plugin, r.outcome, r.dead, r.wait_bucket, r.run_bucket,
               grouping(r.outcome) = 0 as counts, count(*) as n, 0 as arrived,
               sum(r.wait_us) as wait_us, sum(r.run_us) as run_us, sum(r.cpu_us) as cpu_us,
               max(r.max_rss_kb) as max_rss_kb
        from row r
        group by grouping sets ((at, queue, fn, plugin, outcome, dead),
                                (at, queue, fn, plugin, wait_bucket),
                                (at, queue, fn, plugin, run_bucket))
        union all
        select date_bin('1 minute', d.created_at, '2000-01-01 00:00+00'), d.queue,
               coalesce(d.fn, ''), '', null, false, null, null, true, 0, count(*), 0, 0, 0, 0
        from deferred.__deferred d
        where d.id > p_id_from and d.id <= p_id_to
        group by 1, 2, 3),
    name as materialized (
        select x.*, k.*
        from (select distinct x.queue, x.fn, x.plugin from seen x) x
        left join deferred.__deferred_series s on (s.queue, s.fn, s.plugin)
                                                = (x.queue, x.fn, x.plugin)
        cross join lateral (select case when v_full and s.id is null then '+' else x.fn end as fn,
                                   case when v_full and s.id is null then ''
                                        else x.plugin end as plugin) o
        cross join lateral (values (x.queue, o.fn, o.plugin), (x.queue, '*', '*'),
                                   ('*', o.fn, '*'), ('*', '*', '*')) k (in_queue, of_fn, by)),
    known as materialized (
        select n.in_queue, n.of_fn, n.by, s.id
        from (select distinct n.in_queue, n.of_fn, n.by from name n) n
        left join deferred.__deferred_series s on (s.queue, s.fn, s.plugin)
                                                = (n.in_queue, n.of_fn, n.by)),
    made as (
        insert into deferred.__deferred_series as s (queue, fn, plugin)
        select k.in_queue, k.of_fn, k.by from known k where k.id is null
        returning s.queue, s.fn, s.plugin, s.id),
    minute as (
        select 1, x.at, i.id, sum(x.n) filter (where x.outcome = 'ok'),
               sum(x.n) filter (where x.outcome = 'failed'),
               sum(x.n) filter (where x.outcome = 'crashed'),
               sum(x.n) filter (where x.outcome = 'timeout'),
               sum(x.n) filter (where x.outcome = 'interrupted'),
               sum(x.n) filter (where x.outcome = 'superseded'),
               sum(x.n) filter (where x.outcome = 'lost'),
               sum(x.n) filter (where x.outcome = 'cancelled'),
               sum(x.n) filter (where x.outcome = 'expired'),
               sum(x.n) filter (where x.outcome = 'snoozed'),
               sum(x.n) filter (where x.dead), sum(x.arrived),
               deferred.__bounded(sum(x.wait_us) filter (where x.counts)),
               deferred.__bounded(sum(x.run_us) filter (where x.counts)),
               deferred.__bounded(sum(x.cpu_us) filter (where x.counts)), max(x.max_rss_kb),
               array_agg(array[x.wait_bucket, x.n]) filter (where x.wait_bucket is not null),
               array_agg(array[x.run_bucket, x.n]) filter (where x.run_bucket is not null)
        from seen x
        join name n using (queue, fn, plugin)
        join (select * from known k where k.id is not null union all select * from made)
             i (queue, fn, plugin, id)
            on (i.queue, i.fn, i.plugin) = (n.in_queue, n.of_fn, n.by)
        group by x.at, i.id)
    select array_agg(m::deferred.__deferred_sum),
           (select coalesce(sum(x.n), 0) from seen x where x.counts),
           (select coalesce(sum(x.arrived), 0) from seen x) into v_minutes, attempts, arrived
    from minute m;
    perform deferred.__fold_add(v_minutes, 1);
end
$$;
