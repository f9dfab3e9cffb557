-- Finishes a running job in the transaction of its own work.
--
-- The receipt of a claim is a random number of 64 bits. A client that knows it holds the claim. A
-- worker has one receipt for all jobs that it claims at once, so it does not pass the receipt to a
-- function. A function gets a token that is good only for its own job (deferred_plugin.h). With the
-- token it may act on that job over a connection of its own, as a producer that
-- sql/functions/claim/__may_finish.sql allows.
--
-- finish() reads without a lock which lease holds the job. The hot row tells whether that lease
-- still holds it (sql/functions/claim/__claim.sql).
--
-- Cancelling and recording meet at the hot row: whoever locks it first wins, the other finds it
-- gone. So a job that was cancelled is never recorded as done, and one that is done is not
-- cancelled any more.
create or replace function deferred.finish(id bigint, receipt bigint,
                                           result text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    h deferred.__deferred_hot;
    l deferred.__deferred_lease;
begin
    if octet_length($3) > 8192 then
        raise exception using errcode = '22001',
            message = format('job %s: the result has %s bytes, more than 8192',
                             $1, octet_length($3)),
            hint = 'store the result elsewhere and pass a reference';
    end if;
    l := deferred.__work_lease($1, $2, false);
    delete from deferred.__deferred_hot x
    where x.id = $1 and (pg_visible_in_snapshot(x.xid, l.snap)
                         or (x.fn is null and x.receipt = $2 and x.visible_at > clock_timestamp()))
    returning * into h;
    if not found then
        perform deferred.__refuse_receipt($1, $2);
    end if;
    if h.watched then
        perform deferred.__note_end(h.id, 0, 'ok');
    end if;
    h.started_at := coalesce(l.claimed_at, h.started_at);
    delete from deferred.__deferred_progress p where p.job_id = $1;
    if h.watched is not null then
        delete from deferred.__deferred_step s where s.job_id = $1;
    end if;
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, worker,
                                         receipt, wait_us, run_us, result)
    values (h.id, h.attempt + (h.fn is not null)::integer, 'ok', true, h.started_at, l.worker,
            coalesce(l.receipt, h.receipt), deferred.__us(h.visible_at, l.claimed_at),
            deferred.__us(h.started_at, clock_timestamp()), $3);
    perform deferred.__work_close(l, h.id);
end
$$;
comment on function deferred.finish(bigint, bigint, text) is
    'records the attempt with this receipt as ok, in the transaction of the caller. So the success '
    'commits together with the other writes of the caller. Raises 55000 if the receipt is not '
    'valid any more';
grant execute on function deferred.finish(bigint, bigint, text) to deferred_producer, deferred_http;
