-- Sends an event for which a job waits, as an operator asked for on the page of the job, as
-- deferred.__act() does other actions. The payload is as it was typed; empty: none. Returns why it
-- was refused, or NULL. The reason may quote the payload; the row that is written does not.
create or replace function deferred.__act_event(job bigint, event text, payload text, who text,
                                                address text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_owner   name;
    v_payload json;
    v_refused text;
    v_kept    text;
begin
    perform deferred.__act_allowed();
    select a.owner into v_owner from deferred.__deferred_awaited a
    join deferred.__deferred_wait w on w.id = a.child
    where a.child = $1 and a.name = $2 and a.sent is null;
    if not found then
        v_refused := format('job %s does not wait for event ''%s''', $1, left($2, 200));
    elsif trim($3) <> '' then
        select p.value, replace(p.refused, 'params are', 'the payload is')
        into v_payload, v_refused from deferred.__act_params($3) p;
        if v_refused is not null then v_kept := 'the payload is not valid JSON'; end if;
    end if;
    if v_refused is null then
        begin
            perform deferred.send_event($2, v_payload, role => v_owner);
        exception when program_limit_exceeded then
            v_refused := sqlerrm;
        end;
    end if;
    insert into deferred.__deferred_action (who, role, login, address, verb, job_id, settings,
                                            refused)
    values (left($4, 200), deferred.__actor(), session_user, left($5, 200), 'send', $1,
            json_build_object('event', left($2, 200)), left(coalesce(v_kept, v_refused), 1000));
    return v_refused;
end
$$;
grant execute on function deferred.__act_event to deferred_operator;
