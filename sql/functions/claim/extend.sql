create or replace function deferred.extend(id bigint, receipt bigint,
                                           lease_ms bigint) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_end timestamptz;
    l     deferred.__deferred_lease;
begin
    if $3 is null or $3 not between 1 and 604800000 then
        raise exception using errcode = '22003',
            message = format('job %s: lease of %s ms is out of range',
                             $1, coalesce($3::text, 'NULL')),
            hint = 'use 1 to 604800000 (7 days)';
    end if;
    v_end := clock_timestamp() + $3 * interval '1 millisecond';
    -- A call gets a second lease next to that of its batch. An insert waits for no lock on the
    -- batch.
    l := deferred.__work_lease($1, $2, false);
    if l.receipt is not null then
        -- check_deferred itself ends attempts at their time limit.
        if deferred.__work_is(l.worker) then
            v_end := least(v_end, l.claimed_at + interval '1 millisecond'
                                  * (select nullif(d.timeout_ms, 0)
                                     from deferred.__call($1, $1, $1) d));
        end if;
        if v_end > l.expires_at then
            insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone,
                                                   claimed_at, expires_at)
            values (l.queue, l.worker, l.receipt, array[$1], int8range($1, $1, '[]'), l.snap, true,
                    l.claimed_at, v_end);
        end if;
        return greatest(l.expires_at, v_end);
    end if;
    -- A message that a consumer holds is hidden by due_at too.
    update deferred.__deferred_hot x
    set visible_at = greatest(x.visible_at, v_end),
        due_at = case when x.due_at is not null then greatest(x.visible_at, v_end) end
    where x.id = $1 and x.fn is null and x.receipt = $2 and x.visible_at > clock_timestamp()
    returning x.visible_at into v_end;
    if not found then
        perform deferred.__refuse_receipt($1, $2);
    end if;
    return v_end;
end
$$;
comment on function deferred.extend(bigint, bigint, bigint) is
    'have the lease of the claim with this receipt last so long from now at least; returns its '
    'end. Raises 55000 where the receipt is not valid any more';
grant execute on function deferred.extend(bigint, bigint, bigint) to deferred_producer,
      deferred_http;
