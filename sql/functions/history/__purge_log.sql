-- Part of "deferred purge": deletes rows past the limit in a partition of the log that also holds
-- younger ones. Works through pages [page, page + pages), so that every step is short. The limit is
-- noted with the first row that goes: check_ledger() expects no attempt from before it.
create or replace function deferred.__purge_log(
    part regclass, older_than interval, page bigint, pages integer,
    dead_older_than interval default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_cutoff timestamptz := clock_timestamp() - older_than;
    v_rows bigint;
begin
    if not exists (select from pg_inherits i where i.inhrelid = part
                   and i.inhparent = 'deferred.__deferred_log'::regclass) then
        raise exception using errcode = '22023',
            message = format('table ''%s'' is not a partition of the log', part),
            hint = 'run deferred purge';
    end if;
    -- a minute ahead, so that few steps update the row
    update deferred.__deferred_upkeep u set log_from = least(v_cutoff + interval '1 minute',
        clock_timestamp())
    where u.log_from < v_cutoff;
    execute format('delete from %s l where l.ctid >= %L::tid and l.ctid < %L::tid
                    and l.finished_at < %L
                    and not exists (select from deferred.__deferred_hot h where h.id = l.job_id)
                    and not (l.final and l.outcome <> ''ok''
                             and deferred.__dead_stays(l.job_id, l.attempt, l.outcome,
                                                       l.finished_at, %L))',
                   part, format('(%s,0)', page), format('(%s,0)', page + pages), v_cutoff,
                   clock_timestamp() - dead_older_than);
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
grant execute on function deferred.__purge_log to deferred_purger;
