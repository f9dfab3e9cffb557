-- Changes a job that nobody holds. p_changes: as deferred.__update_check() returns them. p_params:
-- the new params, byte for byte; NULL: as they are.
create or replace function deferred.__update(p_id bigint, p_changes jsonb, p_params json)
returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := p_changes->>'queue';
    v_other bigint;
    d deferred.__deferred;
    h deferred.__deferred_hot := deferred.__update_lock(p_id);
begin
    if h.id is null then return false; end if;
    perform deferred.__update_locked(h, p_changes, p_params);
    return true;
exception when unique_violation then
    select * into d from deferred.__deferred x where x.id = p_id;
    v_other := (select x.id
                from deferred.__key_holder(v_queue, deferred.__own_key(d.created_by, d.key)) x
                where x.id <> p_id limit 1);
    raise exception using errcode = '23505',
        message = format('job %s cannot be moved: %s of queue ''%s'' has key ''%s'' already',
                         p_id, coalesce('job ' || v_other, 'another job'), v_queue, d.key),
        hint = 'cancel one of the two jobs, or leave this one in its queue';
end
$$;
comment on function deferred.__update is
    'part of deferred.update(): changes a job that nobody holds; false: no such job';
