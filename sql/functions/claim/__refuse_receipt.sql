create or replace function deferred.__refuse_receipt(id bigint, receipt bigint) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    v_outcome text;
    v_receipt bigint;
begin
    if $1 is null or $2 is null then
        raise exception using errcode = '22004',
            message = format('the %s is NULL', case when $1 is null then 'job id'
                                                    else 'receipt' end),
            hint = 'pass both as the call of the function gives them';
    end if;
    select l.outcome into v_outcome from deferred.__deferred_log l
    where l.job_id = $1 and deferred.__token($1, l.receipt, l.worker) = $2
    order by l.finished_at desc limit 1;
    -- The lease may have ended, and not been given up yet.
    select case when h.fn is null then h.receipt
                when v_lease is not null
                    then coalesce(deferred.__token($1, (v_lease).receipt, (v_lease).worker), 0)
                else (select deferred.__token($1, l.receipt, l.worker)
                      from deferred.__deferred_lease l
                      where l.span @> $1 and $1 = any (l.ids)
                        and pg_visible_in_snapshot(h.xid, l.snap)
                      order by l.expires_at desc limit 1) end
    into v_receipt from deferred.__deferred_hot h left join lateral deferred.__lease_of(h.id,
        h.xid) v_lease on true where h.id = $1;
    raise exception using errcode = '55000',
        message = format('job %s is not held by this receipt: %s', $1,
            case when v_outcome = 'ok' then 'it is finished already'
                 when v_outcome = 'cancelled' then 'it was cancelled'
                 when v_outcome is not null then format('the attempt was recorded as %s', v_outcome)
                 when v_receipt = $2 then 'its lease has expired'
                 when v_receipt is not null then 'another worker has claimed it'
                 else 'it is not running' end),
        hint = 'roll back what this attempt has done; another attempt does it if it is still '
               'needed';
end
$$;
comment on function deferred.__refuse_receipt(bigint, bigint) is
    'says why a receipt is not valid; part of finish() and extend()';
