-- Saves steps of running jobs, one a job: arrays in step. p_resets 1: an attempt that saves a new
-- step does not count against max_attempts. Returns what became of each:
--
--     new     stored; no earlier attempt had a step of that name
--     saved   stored; it replaces the value that an earlier attempt saved
--     gone    the receipt does not hold the job any more
--     locked  another transaction has locked the hot row
--     full    the job has as many steps, or bytes of steps, as it may have
--     refused the value cannot be stored, as `why` says
--
-- All that ends an attempt locks the hot row too, such as __lost() and job_retry.sql. It sees the
-- step, or this function sees that the receipt is not valid any more. A value that cannot be
-- stored must not fail the cycle of the worker, so each has a block of its own.
--
-- The hot row tells the next claim that there is something to ask for (watched), and how much
-- (params_bytes).
create or replace function deferred.__step_save(p_ids bigint[], p_receipts bigint[], p_names text[],
                                                p_values text[], p_resets integer[])
returns table (id bigint, outcome text, why text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    r       record;
    h       deferred.__deferred_hot;
    s       deferred.__deferred_step;
    v_n     integer;
    v_bytes bigint;
    v_new   integer;
begin
    for r in select * from unnest(p_ids, p_receipts, p_names, p_values, p_resets)
             u(id, receipt, name, value, resets) order by u.id
    loop
        id := r.id;
        outcome := null;
        why := null;
        v_new := octet_length(r.value);
        select * into h from deferred.__deferred_hot x
        where x.id = r.id and deferred.__holds(x.id, x.xid, r.receipt)
        for update skip locked;
        if not found then
            outcome := case when exists (select from deferred.__deferred_hot x where x.id = r.id
                                         and deferred.__holds(x.id, x.xid, r.receipt))
                            then 'locked' else 'gone' end;
        else
            select * into s from deferred.__deferred_step x
            where x.job_id = r.id and x.name = r.name;
            select count(*), coalesce(sum(x.bytes), 0) - coalesce(s.bytes, 0) + v_new
            into v_n, v_bytes
            from deferred.__deferred_step x where x.job_id = r.id;
            if s.name is null and v_n >= 1000 then
                outcome := 'full';
                why := 'it has 1000 steps';
            elsif v_bytes > 1048576 then
                outcome := 'full';
                why := 'its steps would have more than 1 MiB';
            else
                begin
                    insert into deferred.__deferred_step as x (job_id, name, value, bytes, number,
                                                               attempt, resets)
                    values (r.id, r.name, r.value::json, v_new, coalesce(s.number, v_n + 1),
                            h.attempt + 1, r.resets = 1)
                    on conflict on constraint __deferred_step_pkey do update
                    set value = excluded.value, bytes = excluded.bytes,
                        saved_at = excluded.saved_at;
                    update deferred.__deferred_hot x
                    set watched = coalesce(x.watched, false),
                        params_bytes = nullif(coalesce(x.params_bytes, 1024) + v_new
                                              - coalesce(s.bytes, 0), 1024)
                    where x.id = r.id and (x.watched is null or v_new is distinct from s.bytes);
                    outcome := case when s.attempt <= h.attempt then 'saved' else 'new' end;
                exception when data_exception or integrity_constraint_violation
                               or program_limit_exceeded then
                    outcome := 'refused';
                    why := sqlerrm;
                end;
            end if;
        end if;
        return next;
    end loop;
end
$$;
comment on function deferred.__step_save is 'saves steps of running jobs for a worker';
grant execute on function deferred.__step_save to deferred_worker;
