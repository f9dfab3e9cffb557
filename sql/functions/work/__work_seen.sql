-- The run of a program that claims jobs by SQL: a row of __deferred_worker for each role that acts
-- and application_name. It is written every 30 s at most. deferred.__work_forget() ends it.
create or replace function deferred.__work_seen(queues text[]) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_who  constant name := deferred.__actor();
    v_run  constant text := format('sql:%s:%s#0.0@sql', regexp_replace(v_who, '[#@]', '_', 'g'),
        regexp_replace(current_setting('application_name'), '[#@]', '_', 'g'));
    v_id   bigint;
    v_seen timestamptz;
begin
    select w.id, w.seen_at into v_id, v_seen from deferred.__deferred_worker w
    where w.instance = v_run and w.ended_at is null order by w.id limit 1;
    if v_seen < clock_timestamp() - interval '30 seconds' then
        update deferred.__deferred_worker w
        set seen_at = clock_timestamp(),
            queues = case when w.queues is null or $1 is null then null
                          when cardinality(w.queues || $1) <= 1000
                          then array(select distinct q from unnest(w.queues || $1) q order by q)
                          else $1 end
        where w.id = v_id and w.ended_at is null returning w.id into v_id;
    end if;
    if v_id is null then
        insert into deferred.__deferred_worker (instance, host, pid, version, queues, mode, role)
        values (v_run, 'sql:' || v_who, pg_backend_pid(), 'sql', $1, 'sql', v_who)
        returning id into v_id;
    end if;
    return v_id;
end
$$;
