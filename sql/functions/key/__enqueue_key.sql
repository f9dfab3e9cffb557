-- Adds the hot row of a job with a key, p_own_key, unless a job holds that key. Returns the job
-- that holds it, which on_duplicate update has changed.
--
-- Most keys are held until their job has ended. The unique index of __deferred_hot decides about
-- these, and nothing else is written. Other keys have a row in __deferred_key, which a job takes
-- after it has stored its hot row. While that table has any page, each job with a key does so. Of
-- two transactions that have not yet committed one waits for the other, at one of the two indexes.
-- All take them in the same order. tests/model/key_model.py explores this.
create or replace function deferred.__enqueue_key(p_id bigint, p_queue text, p_fn text,
    p_priority integer, p_due timestamptz, p_visible timestamptz, p_expires timestamptz,
    p_own_key text, p_limited boolean, p_bounded boolean, p_lane text, p_concurrency integer,
    p_max_attempts integer, p_params_bytes integer, p_key text, p_on_duplicate text,
    p_key_until_ms bigint, p_params json, p_label text, p_now timestamptz) returns bigint
language plpgsql
as $$
declare
    v_skip     boolean := coalesce(p_on_duplicate, 'skip') = 'skip';
    v_old      bigint;       -- the job that holds the key, and deferred.__key_holder() of it
    v_until    timestamptz;
    v_expired  boolean;
    v_by_start boolean;
    v_rows     boolean;      -- keys have rows in __deferred_key
    v_free     boolean;
    v_gone     bigint;       -- the job that was replaced
begin
    loop
        v_rows := p_key_until_ms is not null
                  or pg_relation_size('deferred.__deferred_key'::regclass) > 0;
        v_old := null;
        if v_rows then
            select x.id, x.until, x.expired, x.by_start into v_old, v_until, v_expired, v_by_start
            from deferred.__key_holder(p_queue, p_own_key, p_now) x
            where x.id is distinct from v_gone;
        end if;
        if v_old is null then
            if v_rows then
                if deferred.__key_store(p_id, p_queue, p_fn, p_priority, p_due, p_visible,
                    p_expires, p_own_key, p_limited, p_bounded, p_lane, p_concurrency,
                    p_max_attempts, p_params_bytes, p_key_until_ms, p_now, v_gone) then
                    return null;
                end if;
                continue;
            end if;
            insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
                expires_at, key, limited, bounded, concurrency_key, concurrency, max_attempts,
                params_bytes)
            values (p_id, p_queue, p_fn, p_priority, p_due, p_visible, p_expires, p_own_key,
                p_limited, p_bounded, p_lane, p_concurrency, p_max_attempts, p_params_bytes)
            on conflict (queue, key) where key is not null do nothing;
            if found then
                if pg_relation_size('deferred.__deferred_key'::regclass) = 0
                   or deferred.__key_take(p_queue, p_own_key, p_id, null, p_now) then
                    return null;
                end if;
                delete from deferred.__deferred_hot h where h.id = p_id;
                continue;
            end if;
            -- The job that has the key may end between two statements.
            select h.id, timestamptz 'infinity',
                   coalesce(h.expires_at <= clock_timestamp() and not deferred.__is_claimed(h),
                            false), false
            into v_old, v_until, v_expired, v_by_start
            from deferred.__deferred_hot h where h.queue = p_queue and h.key = p_own_key;
            continue when not found or pg_relation_size('deferred.__deferred_key'::regclass) > 0;
        end if;
        if v_skip and not v_expired and (not v_by_start or v_until < 'infinity') then
            return v_old;
        elsif v_until < 'infinity' or (p_on_duplicate = 'error' and not v_expired) then
            perform deferred.__key_refuse(v_old, v_until, p_queue, p_key, p_on_duplicate);
        end if;
        if v_by_start then
            -- Tried first: a lock on a job that runs would hold up its worker.
            begin
                v_free := deferred.__lock_unclaimed(v_old, true);
                raise exception using errcode = 'DEF02';
            exception when sqlstate 'DEF02' then
                continue when v_free is not true;
            end;
        end if;
        v_free := deferred.__lock_unclaimed(v_old, v_skip and not v_expired);
        continue when v_free is null or (not v_free and (v_expired or v_by_start));
        if not v_free then
            perform deferred.__key_refuse(v_old, null, p_queue, p_key, p_on_duplicate);
        end if;
        -- An expired job never runs, so it does not keep its key.
        if not v_expired and (v_skip or p_on_duplicate = 'update') then
            if p_on_duplicate = 'update' then
                perform deferred.__enqueue_update(v_old, p_fn, p_params, p_params_bytes, p_label,
                                                  p_priority, p_due, p_visible, p_expires, p_key);
            end if;
            return v_old;
        end if;
        v_gone := deferred.__key_expel(v_old, p_id, v_expired);
    end loop;
end
$$;
comment on function deferred.__enqueue_key is
    'part of deferred.__enqueue(), for a job with a key; returns the job that has it already';
