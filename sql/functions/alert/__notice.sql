-- For each job that died a job of the function that --on-dead names is deferred. By
-- deferred.state() a job is dead if its last attempt failed, crashed, timed out or was lost. An
-- expired, cancelled or skipped job is not dead.
--
-- Every death has a row in the index of ended attempts. A walk reads that index from an hour before
-- the bookmark to its end, one transaction a step. So a later walk finds a death that commits up to
-- an hour late. A death and its job are stored in one transaction, so none is missed or repeated,
-- even after a kill. Rows of __deferred_noticed are deleted by the bookmark, not by the clock, once
-- no walk reads there again. One at a time: the row of __deferred_notice.
--
-- Never told: the death of a job whose function is named by any --on-dead. So no chain of them has
-- no end.
--
-- The job belongs to deferred_owner, in the queue of the dead one: no producer sees it or takes it
-- back. All that a producer wrote is a value in its params. Params of more than 64 KiB are replaced
-- by null, and params_bytes has their size. Of an error the first 8,192 characters are passed on.
--
-- A step looks at 20,000 deaths and tells 1,000. Returns whether there is more to look at. Where
-- nobody has the setting it looks at __deferred_on_dead and nothing else.
create or replace function deferred.__notice() returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp set jit = off set lock_timeout = '100ms'
set enable_seqscan = off set plan_cache_mode = force_custom_plan
as $$
declare
    v_since timestamptz := (select min(o.since) from deferred.__deferred_on_dead o);
    v_own   deferred.__deferred_notice;
    v_from  timestamptz;
    v_seen  bigint;
    v_told  bigint := 0;
    v_last  timestamptz;
    v       record;
begin
    if v_since is null then
        return false;
    end if;
    select * into v_own from deferred.__deferred_notice for update skip locked;
    if not found then
        return false;
    end if;
    if v_own.begun_at is null then
        v_own.begun_at := clock_timestamp();
        v_own.at := v_own.noticed_to - interval '1 hour';
    end if;
    v_from := greatest(v_own.at, v_since - interval '1 microsecond');
    -- Deaths of one moment stay together: the next step begins behind it.
    select count(*), max(x.finished_at) into v_seen, v_last
    from (select l.finished_at from deferred.__deferred_log l
          where l.final and l.outcome <> 'ok' and l.finished_at > v_from
          order by l.finished_at fetch first 20000 rows with ties) x;
    for v in
        select l.job_id, l.attempt, l.finished_at, l.outcome,
        left(l.error, 8192) as error, d.fn, d.queue, d.label, d.params,
        octet_length(d.params::text) as bytes, o.fn as on_dead
        from deferred.__deferred_log l
        join deferred.__deferred d on d.id = l.job_id
        cross join lateral (
            select x.fn, x.since from deferred.__deferred_on_dead x
            where (x.kind = 'function' and x.name = d.fn) or (x.kind = 'queue' and x.name = d.queue)
            order by x.kind limit 1) o
        where l.final and l.outcome <> 'ok' and l.finished_at > v_from and l.finished_at <= v_last
          and deferred.state(l.outcome) = 'dead' and l.finished_at >= o.since
          and not exists (select from deferred.__deferred_on_dead y where y.fn = d.fn)
          and not exists (select from deferred.__deferred_noticed n
                          where (n.job_id, n.attempt) = (l.job_id, l.attempt))
        order by l.finished_at fetch first 1000 rows with ties
    loop
        v_told := v_told + 1;
        v_from := v.finished_at;
        insert into deferred.__deferred_noticed (job_id, attempt, finished_at)
        values (v.job_id, v.attempt, v.finished_at) on conflict do nothing;
        continue when not found;
        perform deferred.__alert_job(v.queue, v.on_dead,
                                     json_build_object('job', v.job_id, 'fn', v.fn, 'queue',
                                                       v.queue, 'attempt', v.attempt, 'outcome',
                                                       v.outcome,
            'error', v.error, 'label', v.label, 'params',
            case when v.bytes <= 65536 then v.params end, 'params_bytes', v.bytes),
            format('job %s died', v.job_id), null, null, 0::smallint);
    end loop;
    if v_told >= 1000 then
        v_own.at := v_from;
    elsif v_seen >= 20000 then
        v_own.at := v_last;
    else
        v_own.noticed_to := v_own.begun_at;
        v_own.begun_at := null;
    end if;
    update deferred.__deferred_notice
    set noticed_to = v_own.noticed_to, at = v_own.at, begun_at = v_own.begun_at;
    delete from deferred.__deferred_noticed n
    where n.finished_at < v_own.noticed_to - interval '2 hours';
    return v_own.begun_at is not null;
end
$$;
grant execute on function deferred.__notice to deferred_worker;
