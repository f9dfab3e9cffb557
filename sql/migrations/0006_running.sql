-- 0006 running: jobs while they are being run: cancelled, reporting how far they are, holding on to their claim,
-- finished in the transaction of their own work.
--
-- Who knows the receipt of a claim, a random number of 64 bits, holds the claim. A worker has one for all jobs that it claims
-- at once, so no function is told it: a function is told a token that is good for its own job (deferred_plugin.h), and may act
-- on that over a connection of its own with the rights of a producer.
--
-- Cancelling and recording meet at the hot row: whoever locks it first wins, the other finds it gone. So a job that
-- was cancelled is never recorded as done, and one that is done is not cancelled any more. deferred.cancel() stands in 0001.

set local role deferred_owner;

create table deferred.__deferred_progress (
    job_id      bigint primary key,
    attempt     integer not null,
    done        bigint,
    total       bigint,
    text        text,
    reported_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_progress is 'how far attempts in progress are, for those functions that say so; of use only while a hot row with that attempt is claimed';
comment on column deferred.__deferred_progress.job_id is 'id of the job';
comment on column deferred.__deferred_progress.attempt is 'number of the attempt that reported';
comment on column deferred.__deferred_progress.done is 'so much is done, in units of the function; NULL: not told';
comment on column deferred.__deferred_progress.total is 'so much is to be done in all; NULL: not known';
comment on column deferred.__deferred_progress.text is 'what it is at, for people';
comment on column deferred.__deferred_progress.reported_at is 'when the function said so (database clock)';

-- As lib/token.c computes it: the first 64 bits of SHA-256 of both numbers, each as eight bytes, the highest first.
create function deferred.__token(id bigint, receipt bigint, worker bigint) returns bigint
language sql immutable
as $$
    select case when $3 is null then $2 else ('x' || encode(substr(sha256(int8send($2) || int8send($1)), 1, 8), 'hex'))::bit(64)::bigint end
$$;
comment on function deferred.__token(bigint, bigint, bigint) is 'by what finish() and extend() know who holds a claim: of a worker''s a token of that job alone, of a consumer''s the receipt';

create function deferred.__refuse_receipt(id bigint, receipt bigint) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    v_outcome text;
    v_receipt bigint;
begin
    if $1 is null or $2 is null then
        raise exception using errcode = '22004', message = 'job id or receipt is NULL',
            hint = 'a function finds both in the call it is given';
    end if;
    select l.outcome into v_outcome from deferred.__deferred_log l where l.job_id = $1 and deferred.__token($1, l.receipt, l.worker) = $2
    order by l.finished_at desc limit 1;
    select deferred.__token($1, h.receipt, h.worker) into v_receipt from deferred.__deferred_hot h where h.id = $1;
    raise exception using errcode = '55000',
        message = format('job %s is not held by this receipt: %s', $1,
            case when v_outcome = 'ok' then 'it has been finished already'
                 when v_outcome = 'cancelled' then 'it was cancelled'
                 when v_outcome is not null then format('that attempt has been recorded as %s', v_outcome)
                 when v_receipt = $2 then 'its lease has ended'
                 when v_receipt is not null then 'it was claimed again'
                 else 'it is not being run' end),
        hint = 'roll back what was done for it: if it is still to be done, another attempt does it';
end
$$;
comment on function deferred.__refuse_receipt(bigint, bigint) is 'says why a receipt is not valid; part of finish() and extend()';

create function deferred.finish(id bigint, receipt bigint, result text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    h deferred.__deferred_hot;
begin
    if octet_length($3) > 8192 then
        raise exception using errcode = '22001',
            message = format('the result of job %s has %s bytes, at most 8192 are kept', $1, octet_length($3)),
            hint = 'store it elsewhere and hand in a reference';
    end if;
    delete from deferred.__deferred_hot x
    where x.id = $1 and deferred.__token($1, x.receipt, x.worker) = $2 and x.visible_at > clock_timestamp()
    returning * into h;
    if not found then
        perform deferred.__refuse_receipt($1, $2);
    end if;
    delete from deferred.__deferred_progress p where p.job_id = $1;
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, worker, receipt, run_us, result)
    values (h.id, h.attempt, 'ok', true, h.started_at, h.worker, h.receipt,
            (extract(epoch from clock_timestamp() - h.started_at) * 1000000)::bigint, $3);
end
$$;
comment on function deferred.finish(bigint, bigint, text) is 'record the attempt that was told this receipt as ok, in the transaction of the caller: what else it writes and the success commit together. Raises 55000 where the receipt is not valid any more';

create function deferred.extend(id bigint, receipt bigint, lease_ms bigint) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_end timestamptz;
begin
    if $3 is null or $3 not between 1 and 604800000 then
        raise exception using errcode = '22003', message = format('lease of %s ms is out of range', coalesce($3::text, 'NULL')),
            hint = 'use 1 to 604800000 (7 days)';
    end if;
    v_end := clock_timestamp() + $3 * interval '1 millisecond';
    -- To the tail of its lane, as a renewal does: see job_renew.sql. A message that a consumer holds is hidden by due_at too.
    update deferred.__deferred_hot x
    set visible_at = greatest(x.visible_at, v_end), xid = pg_current_xact_id(),
        due_at = case when x.due_at is not null then greatest(x.visible_at, v_end) end
    where x.id = $1 and deferred.__token($1, x.receipt, x.worker) = $2 and x.visible_at > clock_timestamp()
    returning x.visible_at into v_end;
    if not found then
        perform deferred.__refuse_receipt($1, $2);
    end if;
    return v_end;
end
$$;
comment on function deferred.extend(bigint, bigint, bigint) is 'have the lease of the claim with this receipt last so long from now at least; returns its end. Raises 55000 where the receipt is not valid any more';

revoke all on function deferred.__token(bigint, bigint, bigint), deferred.__refuse_receipt(bigint, bigint), deferred.finish(bigint, bigint, text), deferred.extend(bigint, bigint, bigint) from public;
grant execute on function deferred.finish(bigint, bigint, text), deferred.extend(bigint, bigint, bigint) to deferred_producer;
grant select, insert, update, delete on deferred.__deferred_progress to deferred_worker;
grant select on deferred.__deferred_progress to deferred_viewer;

reset role;
