-- One step of retention: drops one partition that holds nothing younger than the limit and no hot
-- job. Returns its name, or NULL when none is left. A partition in use is left for the next time.
create or replace function deferred.__purge_partition(older_than interval) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
as $$
declare
    v_cutoff timestamptz := clock_timestamp() - older_than;
    p record;
    v_hit boolean;
begin
    for p in
        select c.relname, i.inhparent = 'deferred.__deferred_log'::regclass as is_log,
               (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('([^']+)'\) TO \('([^']+)'\)$re$)) as bound
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent in ('deferred.__deferred_log'::regclass, 'deferred.__deferred'::regclass)
          and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
        order by is_log desc, c.relname
    loop
        if p.is_log then
            continue when p.bound[2]::timestamptz > v_cutoff;
            -- Attempts of a hot job stay: the other rows go page by page.
            continue when exists (
                select from deferred.__deferred_hot h join deferred.__deferred_log l on l.job_id = h.id
                where h.attempt > 0 and l.finished_at >= p.bound[1]::timestamptz and l.finished_at < p.bound[2]::timestamptz);
        else
            continue when p.bound[2]::bigint > (select last_value from deferred.__deferred_id_seq);
            continue when exists (select from deferred.__deferred_hot h where h.id >= p.bound[1]::bigint and h.id < p.bound[2]::bigint);
            continue when exists (select from deferred.__deferred_log l where l.job_id >= p.bound[1]::bigint and l.job_id < p.bound[2]::bigint);
            execute format('select exists (select from deferred.%I where created_at >= %L)', p.relname, v_cutoff) into v_hit;
            continue when v_hit;
        end if;
        if p.is_log then
            update deferred.__deferred_upkeep u set log_from = least(v_cutoff + interval '1 minute', clock_timestamp())  -- ahead: not each step anew
    where u.log_from < v_cutoff;
        end if;
        execute format('drop table deferred.%I', p.relname);
        return p.relname;
    end loop;
    return null;
exception when lock_not_available then
    return null;
end
$$;
comment on function deferred.__purge_partition(interval) is 'part of "deferred purge": drops one outlived partition';
grant execute on function deferred.__purge_partition(interval) to deferred_purger;
