-- Functions whose jobs died: the counters of the sums against those that were reported last. So no
-- death is missed, however late it was folded. first: nobody has looked before, so what died until
-- now is history.
create or replace function deferred.__alert_dead(dead bigint, first boolean) returns void
language plpgsql
as $$
declare
    v record;
begin
    for v in
        select s.fn, t.dead, t.dead - coalesce(a.counted, 0) as more, a.reported_at
        from deferred.__deferred_series s
        join deferred.__deferred_sum t on t.span = 0 and t.series = s.id and t.at = '-infinity'
        left join deferred.__deferred_alert a on a.cause = 'dead' and a.name = s.fn
        where s.queue = '*' and s.plugin = '*' and s.fn not in ('*', '', 'deferred-alert')
          and t.dead <> coalesce(a.counted, 0)
    loop
        if v.more < 0 or first then  -- fewer than before: the sums were made again
            insert into deferred.__deferred_alert (cause, name, ended_at, counted, text, remedy)
            values ('dead', v.fn, now(), v.dead, '', '')
            on conflict (cause, name) do update set counted = excluded.counted;
        elsif dead > 0 and v.more >= dead then
            perform deferred.__alert_found(
                'dead', v.fn,
                format('%s job%s of function %s died%s', v.more, case when v.more <> 1 then 's' end,
                       v.fn, ' since ' || to_char(v.reported_at, 'YYYY-MM-DD HH24:MI')),
                format('deferred ls --state dead --fn %s', v.fn));
        end if;
    end loop;
end
$$;
