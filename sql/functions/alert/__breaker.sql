
-- The breaker: a function of which the last p_crashes attempts crashed, whoever made them, is
-- paused (__function_pause.sql), and its jobs stay in the queue. Workers count crashes as they
-- record them (__crashed.sql). This function finds the crashes that workers could not see: those
-- that lie far apart, or among too many other attempts. This function counts the sums by minute, so
-- a minute in which other attempts ended too is not one of crashes alone. If several roles use a
-- function and only the jobs of one role crash, the function is not paused. So no role can have it
-- paused for the others. Attempts that were cut off or lost say nothing.
--
-- A pause is over when an attempt ends in another way than by a crash. The minute in which the
-- pause began says nothing, because attempts before the pause are in its sums. The first trial
-- comes later. If p_crashes is 0, no function is paused, and pauses still end.
--
-- This reads the series of functions with a crash in the last hour, by the primary key of
-- __deferred_sum. Of each such series it reads up to 1,000 minutes.
create or replace function deferred.__breaker(p_crashes bigint, p_retry_ms bigint) returns void
language plpgsql
as $$
declare
    v record;
begin
    for v in
        select f.name from deferred.__deferred_function f
        where f.broken_at is not null and exists (
            select from deferred.__deferred_series s join deferred.__deferred_sum m on m.span = 1
                and m.series = s.id
                                                    and m.at > f.broken_at
            where (s.queue, s.fn, s.plugin) = ('*', f.name, '*')
              and m.ok + m.failed + m.timeout + m.cancelled + m.snoozed > 0)
    loop
        perform deferred.__function_resume(v.name);
    end loop;
    delete from deferred.__deferred_crash c where c.since < now() - interval '1 hour';
    if p_crashes <= 0 then
        return;
    end if;
    for v in
        with crashing as materialized (
            select s.id, s.fn, coalesce(a.ended_at, '-infinity') as from_at
            from deferred.__deferred_series s
            left join deferred.__deferred_alert a on a.cause = 'breaker' and a.name = s.fn
            where s.queue = '*' and s.plugin = '*' and s.fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'
              and exists (select from deferred.__deferred_sum m
                          where m.span = 1 and m.series = s.id and m.at >= now() - interval '1 hour'
                            and m.crashed > 0)
              and not exists (select from deferred.__deferred_function f
                              where f.name = s.fn and f.broken_at is not null))
        select c.fn, n.crashed
        from crashing c
        cross join lateral (
            select sum(x.crashed) as crashed, min(x.at) filter (where x.crashed > 0) as since
            from (select m.at, m.crashed,
                  sum(m.ok + m.failed + m.timeout + m.cancelled + m.snoozed)
                      over (order by m.at desc) as others
                  from (select y.* from deferred.__deferred_sum y
                        where y.span = 1 and y.series = c.id and y.at >= c.from_at
                        order by y.at desc limit 1000) m) x
            where x.others = 0) n
        cross join lateral (
            select count(*) filter (where u.crashed_at >= n.since) as crashing,
                   count(*) filter (where u.crashed_at >= n.since is not true) as others
            from deferred.__deferred_caller u
            where u.fn = c.fn
              and greatest(u.crashed_at, u.other_at) > now() - interval '7 days') u
        where n.crashed >= p_crashes and not (u.crashing = 1 and u.others > 0)
    loop
        perform deferred.__function_pause(v.fn, v.crashed::bigint, p_retry_ms);
    end loop;
end
$$;
comment on function deferred.__breaker(bigint, bigint) is
    'pauses functions whose last attempts all crashed, and ends such pauses; part of '
    'deferred.__alert()';
