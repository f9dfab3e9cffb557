create or replace function deferred.extend(id bigint, receipt bigint, lease_ms bigint) returns timestamptz
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
grant execute on function deferred.extend(bigint, bigint, bigint) to deferred_producer, deferred_http;
