-- The first partition, of the log or else of jobs, in which every row is past the limit. It has no
-- hot job, no dead job that stays, and is not in `but`. Returns no row if there is none.
create or replace function deferred.__outlived(
    older_than interval, dead_older_than interval, but text[],
    out name text, out is_log boolean, out until timestamptz)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    p     record;
    v_hit boolean;
    v_dead timestamptz := clock_timestamp() - dead_older_than;
begin
    until := clock_timestamp() - older_than;
    for p in
        select x.name, x.first, x.past, t.is_log
        from (values (true, 'deferred.__deferred_log'::regclass),
              (false, 'deferred.__deferred')) t (is_log, parent)
        cross join lateral deferred.__partitions(t.parent) x
        where x.name <> all (but)
        order by t.is_log desc, length(x.first), x.first
    loop
        if p.is_log then
            continue when p.past::timestamptz > until;
            -- Attempts of a hot job stay: the other rows go page by page.
            continue when exists (
                select from deferred.__deferred_hot h
                join deferred.__deferred_log l on l.job_id = h.id
                where h.attempt > 0 and l.finished_at >= p.first::timestamptz
                  and l.finished_at < p.past::timestamptz);
            -- And so do dead jobs.
            continue when exists (
                select from deferred.__deferred_log l
                where l.final and l.outcome <> 'ok'
                  and l.finished_at >= p.first::timestamptz and l.finished_at < p.past::timestamptz
                  and deferred.__dead_stays(l.job_id, l.attempt, l.outcome, l.finished_at, v_dead));
        else
            continue when p.past::bigint > (select last_value from deferred.__deferred_id_seq);
            continue when exists (select from deferred.__deferred_hot h
                                  where h.id >= p.first::bigint and h.id < p.past::bigint);
            continue when exists (select from deferred.__deferred_log l
                                  where l.job_id >= p.first::bigint and l.job_id < p.past::bigint);
            -- The last one is most often the youngest, and then no other is looked at.
            execute
                format('select d.created_at >= %L from deferred.%I d order by d.id desc limit 1',
                       until, p.name) into v_hit;
            continue when v_hit;
            execute format('select exists (select from deferred.%I where created_at >= %L)', p.name,
                           until) into v_hit;
            continue when v_hit;
        end if;
        name := p.name;
        is_log := p.is_log;
        if is_log then
            -- a minute ahead, so that few steps update the row
            update deferred.__deferred_upkeep u set log_from = least(until + interval '1 minute',
                clock_timestamp())
            where u.log_from < until;
        end if;
        return;
    end loop;
end
$$;
