-- A queue without settings of its own has those of the longest pattern that matches. That holds
-- whichever way the queue is added, comes back, or loses its last own setting. An update of the
-- column pattern has the queue take the settings again. Any other update of a setting makes the
-- settings the queue's own.
create or replace function deferred.__queue_follow() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_plain   constant jsonb := deferred.__queue_plain();
    v_pattern record;
begin
    if new.removed_at is not null then return new; end if;
    if tg_op = 'UPDATE' and old.removed_at is null
       and new.pattern is not distinct from old.pattern then
        if not exists (select from jsonb_object_keys(v_plain) k
                       where to_jsonb(new)->k <> to_jsonb(old)->k) then return new; end if;
        new.pattern := null;
    end if;
    if new.pattern is null and not to_jsonb(new) @> v_plain then return new; end if;
    select p.pattern, p.settings into v_pattern from deferred.__deferred_pattern p
    where starts_with(new.name, left(p.pattern, -1)) order by length(p.pattern) desc limit 1;
    new := jsonb_populate_record(new, v_plain || coalesce(v_pattern.settings, '{}'));
    new.pattern := v_pattern.pattern;
    if coalesce(new.max_running, new.rate) is not null then
        perform deferred.__limited_add(new.name);
    end if;
    return new;
end
$$;
comment on function deferred.__queue_follow() is
    'trigger: gives a queue without settings of its own the settings of a pattern';
create or replace trigger __deferred_follow
    before insert or update of removed_at, pattern, params_max_bytes, visibility_timeout_ms, ttl_ms,
        max_attempts, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, max_running, rate,
        burst, max_length, on_full, weight, age_ms, key_rate, key_burst
    on deferred.__deferred_queue for each row execute function deferred.__queue_follow();
