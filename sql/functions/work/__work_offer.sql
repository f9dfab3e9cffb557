-- Reports the functions of a program that claims by SQL, as a worker does, if they have changed or
-- the report is an hour old. Programs of one role and application_name share a report.
create or replace function deferred.__work_offer(p_fns text[]) returns void
language plpgsql
as $$
declare
    v_host constant text := 'sql:' || deferred.__actor();
    v_at   constant text := left(current_setting('application_name'), 100);
    v_fns  text[];
begin
    perform from deferred.__deferred_offer o
    where o.host = v_host and o.origin = v_at and o.fn @> p_fns
      and o.seen_at > clock_timestamp() - interval '1 hour';
    if not found then
        select array_agg(distinct u.f) into v_fns
        from (select unnest(p_fns) as f
              union all
              select unnest(o.fn) from deferred.__deferred_offer o
              where o.host = v_host and o.origin = v_at and cardinality(o.fn) < 1000
                and o.seen_at > clock_timestamp() - interval '1 hour') u;
        perform deferred.__offer(v_host, v_at, hashtextextended(v_fns::text, 0), v_fns,
                                 array_fill('sql'::text, array[cardinality(v_fns)]),
                                 array_fill(0::bigint, array[cardinality(v_fns)]),
                                 array_fill(0, array[cardinality(v_fns)]));
    end if;
end
$$;
