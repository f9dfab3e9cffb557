create or replace function deferred.step(id bigint, receipt bigint, name text,
                                         value json) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    l      deferred.__deferred_lease;
    v_what record;
begin
    perform deferred.__name_check('function', $3);
    if octet_length($4::text) <= 65536 is not true then
        raise exception using errcode = case when $4 is null then '22004' else '22001' end,
            message = case when $4 is null then format('step ''%s'': the value is NULL', $3)
                           else format('step ''%s'': the value has %s bytes, more than 65536', $3,
                                       octet_length($4::text)) end,
            hint = 'pass a JSON value of 1 to 65536 bytes; store a larger one elsewhere';
    end if;
    l := deferred.__work_lease($1, $2, true);
    select s.outcome, s.why into v_what
    from deferred.__step_save(array[$1], array[l.receipt], array[$3], array[$4::text], '{0}') s;
    if v_what.outcome = 'gone' then
        perform deferred.__refuse_receipt($1, $2);
    elsif v_what.outcome not in ('new', 'saved') then
        raise exception using
            errcode = case v_what.outcome when 'locked' then '55P03' when 'full' then '54000'
                                          else '22023' end,
            message = format('job %s: step ''%s'' is not saved: %s', $1, $3,
                             coalesce(v_what.why, 'another transaction has locked the job')),
            hint = case v_what.outcome when 'locked' then 'save the step again'
                        else 'store the value elsewhere, and save a reference' end;
    end if;
end
$$;
comment on function deferred.step(bigint, bigint, text, json) is
    'saves a step of the job with this receipt: the next attempt gets its value. Raises 55000 if '
    'the receipt is not valid any more';
grant execute on function deferred.step(bigint, bigint, text, json)
    to deferred_worker, deferred_http;
