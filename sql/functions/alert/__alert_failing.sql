-- Functions that fail more than before: the last 15 minutes against the hours of the week before.
-- The difference must be three standard deviations, so that it is not chance. At least this share
-- of the attempts must fail. Share 0: nothing is reported.
create or replace function deferred.__alert_failing(share double precision) returns void
language plpgsql
as $$
declare
    v_to timestamptz := (select f.folded_to from deferred.__deferred_folded f);
    v    record;
begin
    for v in
        with lately as materialized (
            select s.id, s.fn, n.bad, n.ended
            from deferred.__deferred_series s
            cross join lateral deferred.__failures(s.id, 1, v_to - interval '15 minutes', v_to) n
            where share > 0 and s.queue = '*' and s.plugin = '*'
              and s.fn not in ('*', '', 'deferred-alert')
              and n.ended >= 20 and n.bad > share * n.ended
              -- the breaker has reported those
              and not exists (select from deferred.__deferred_function f
                              where f.name = s.fn and f.broken_at is not null))
        select l.fn, l.bad, l.ended, b.bad / nullif(b.ended, 0) as before
        from lately l
        cross join lateral deferred.__failures(
            l.id, 60, v_to - interval '7 days',
            date_bin('1 hour', v_to - interval '15 minutes', '2000-01-01 00:00+00')) b
        cross join lateral (select (l.bad + b.bad) / (l.ended + b.ended) as both) c
        where case when b.ended < 20 then l.bad > 0.5 * l.ended
                   else l.bad / l.ended > 2 * b.bad / b.ended
                        and l.bad / l.ended - b.bad / b.ended
                            > 3 * sqrt(c.both * (1 - c.both) * (1 / l.ended + 1 / b.ended)) end
    loop
        perform deferred.__alert_found(
            'failing', v.fn,
            format('function %s fails: %s of %s attempts in the last 15 minutes%s',
                   v.fn, v.bad, v.ended,
                   ', and ' || round((100 * v.before)::numeric, 1) || ' % in the week before'),
            format('deferred ls --fn %s; deferred why --all', v.fn));
    end loop;
end
$$;
