-- Adds the hot row of a job with a key, p_own_key, unless a job has that key. Only a replacement
-- locks that job. Otherwise an open transaction would hold up the worker that runs it.
create or replace function deferred.__enqueue_key(p_id bigint, p_queue text, p_fn text,
    p_priority integer, p_due timestamptz, p_visible timestamptz, p_expires timestamptz,
    p_own_key text, p_limited boolean, p_bounded boolean, p_lane text, p_concurrency integer,
    p_max_attempts integer, p_params_bytes integer, p_key text, p_on_duplicate text) returns bigint
language plpgsql
as $$
declare
    v_old  record;
    v_free boolean;
begin
    loop
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
            expires_at, key, limited, bounded, concurrency_key, concurrency, max_attempts,
            params_bytes)
        values (p_id, p_queue, p_fn, p_priority, p_due, p_visible, p_expires, p_own_key, p_limited,
            p_bounded, p_lane, p_concurrency, p_max_attempts, p_params_bytes)
        on conflict (queue, key) where key is not null do nothing;
        if found then return null; end if;
        -- The job that has the key may end between two statements. Then the insert is tried again.
        select h.id, coalesce(h.expires_at <= clock_timestamp() and not deferred.__is_claimed(h),
                              false) as expired into v_old
        from deferred.__deferred_hot h where h.queue = p_queue and h.key = p_own_key;
        continue when not found;
        -- An expired job never runs, so it does not keep its key.
        if not v_old.expired then
            if coalesce(p_on_duplicate, 'skip') = 'skip' then
                return v_old.id;
            elsif p_on_duplicate = 'error' then
                raise exception using errcode = '23505',
                    message = format('job %s of queue ''%s'' has key ''%s'' already',
                                     v_old.id, p_queue, p_key),
                    hint = 'use another key, or on_duplicate skip or replace';
            end if;
        end if;
        v_free := deferred.__lock_unclaimed(v_old.id);
        continue when v_free is null or (v_old.expired and not v_free);
        if not v_free then
            raise exception using errcode = '55006',
                message = format('job %s with key ''%s'' is running and cannot be replaced',
                                 v_old.id, p_key),
                hint = 'defer again when the job has ended, or use another key';
        end if;
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select h.id, case when h.watched then deferred.__note_end(h.id, 0, s.outcome) else 0 end,
               s.outcome, true,
               case when v_old.expired then format('not started before %s', h.expires_at)
                    else format('replaced by job %s', p_id) end
        from deferred.__deferred_hot h
        cross join (select case when v_old.expired then 'expired'
                                else 'cancelled' end as outcome) s
        where h.id = v_old.id;
        delete from deferred.__deferred_hot h where h.id = v_old.id;
    end loop;
end
$$;
comment on function deferred.__enqueue_key is
    'part of deferred.__enqueue(), for a job with a key; returns the job that has it already';
