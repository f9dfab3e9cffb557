-- Claims up to p_n jobs, with and without limits. If jobs with limits exist, a random half of the
-- calls claims them first. So neither kind of jobs keeps the other kind waiting.
create or replace function deferred.__work_claim(p_queues text[], p_fns text[], p_n integer,
                                                 p_worker bigint, p_lease_ms bigint)
returns deferred.__claimed[]
language plpgsql
as $$
declare
    c_bytes constant integer := 16777216;  -- of params, as for check_deferred
    v_seed  constant bigint := (random() * 9e18)::bigint;
    v_first boolean := deferred.__limited_jobs(p_queues) and random() < 0.5;
    v_jobs  deferred.__claimed[] := '{}';
    v_left  integer := p_n;
    v_last  deferred.__claimed;
    r       deferred.__claimed;
begin
    for v_step in 1 .. 2 loop
        exit when v_left = 0;
        if (v_step = 1) = v_first then
            v_jobs := v_jobs || array(
                select row(c.id, c.receipt, c.attempt, c.attempt_base, c.max_attempts,
                           c.timeout_ms, c.backoff_floor_ms, c.backoff_ceiling_ms,
                           c.backoff_exponent, c.created_at, c.ready_since, c.fn, c.label,
                           c.params, c.queue, c.priority, c.lease_ms, c.alone, c.tick,
                           c.previous_tick, c.traceparent, c.parents, c.tid, c.claimed_at,
                           null, null, null, null, null, null, null)::deferred.__claimed
                from deferred.__claim_limited(
                    p_queues, v_left, v_left, p_worker, p_lease_ms, deferred.__max_attempts(),
                    p_fns, v_seed, c_bytes, v_left, null) c
                where c.id is not null);
        else
            -- A value that equals the one of the row before is NULL.
            for r in select * from deferred.__claim(
                p_queues, v_left, v_left, p_worker, p_lease_ms, deferred.__max_attempts(), p_fns,
                v_seed, c_bytes, '{}', '{}', true, v_left, null)
            loop
                if r.id is not null then
                    r.receipt := coalesce(r.receipt, v_last.receipt);
                    r.queue := coalesce(r.queue, v_last.queue);
                    r.priority := coalesce(r.priority, v_last.priority);
                    r.lease_ms := coalesce(r.lease_ms, v_last.lease_ms);
                    r.claimed_at := coalesce(r.claimed_at, v_last.claimed_at);
                    v_jobs := v_jobs || r;
                    v_last := r;
                end if;
            end loop;
        end if;
        v_left := p_n - cardinality(v_jobs);
    end loop;
    return v_jobs;
end
$$;
