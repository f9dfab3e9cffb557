-- The live lease by which a call is held with this receipt. NULL: there is none. Raises 42501 if
-- the role that acts may not act on the job. p_sql: only of a job that claim_jobs() gave out. A
-- function that check_deferred runs ends with a result.
create or replace function deferred.__work_lease(p_id bigint, p_receipt bigint, p_sql boolean)
returns deferred.__deferred_lease
language plpgsql
as $$
declare
    l deferred.__deferred_lease;
begin
    select y.* into l from deferred.__deferred_hot x
    cross join lateral deferred.__lease_of(x.id, x.xid) y
    where x.id = p_id and x.fn is not null
      and deferred.__token(p_id, y.receipt, y.worker) = p_receipt;
    if l.receipt is not null and not deferred.__may_finish(p_id) then
        raise exception using errcode = '42501',
            message = format('job %s was deferred by another role', p_id),
            hint = 'grant that role to the role of the function';
    elsif p_sql and l.receipt is null then
        perform deferred.__refuse_receipt(p_id, p_receipt);
    elsif p_sql and not deferred.__work_is(l.worker) then
        raise exception using errcode = '55000',
            message = format('job %s is run by check_deferred', p_id),
            hint = 'end the function with a result that says so: deferred_functions(7)';
    end if;
    return l;
end
$$;
