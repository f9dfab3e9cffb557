-- Does what an operator asked for on a page, and writes it down in the same transaction. An action
-- that is refused leaves a row too, also if it waited too long for a transaction that somebody left
-- open. Returns why it was refused, or NULL.
create or replace function deferred.__act(verb text, job_id bigint, queue text, who text,
                                          address text, fn text default null,
                                          schedule text default null,
    settings json default null) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_refused text;
    v_hint text;
    v_was text;
begin
    if num_nonnulls($2, $3, $6, $7) <> 1 or ($8 is not null) <> coalesce($1 = 'set', false)
       or not coalesce(case when $2 is not null then $1 in ('retry', 'run', 'cancel')
                            when $3 is not null then $1 in ('pause', 'resume', 'set')
                            when $6 is not null then $1 = 'set'
                                else $1 in ('pause', 'resume', 'run') end, false) then
        raise exception using errcode = '22023',
            message = format('action ''%s'' is unknown', left($1, 100)),
            hint = 'deferred_web and the database have different versions: run deferred migrate '
                   'of the newer one';
    end if;
    perform deferred.__act_allowed();
    if octet_length($8::text) > 4000 then
        raise exception using errcode = '22003',
            message = 'settings are longer than 4,000 bytes',
            hint = 'change a few settings at a time';
    end if;
    if $3 is not null and $1 = 'set' and exists (select from json_object_keys($8) k
        where k not in ('max_running', 'rate', 'burst', 'max_length', 'max_attempts', 'weight',
                        'on_dead')) then
        raise exception using errcode = '42501',
            message = 'an operator may not change this setting of a queue',
            hint = 'operators change max_running, rate, burst, max_length, max_attempts, weight '
                   'and on_dead; an administrator runs deferred queue set';
    end if;
    begin
        v_was := deferred.__patience('5 seconds');
        if $7 is not null then
            v_refused := deferred.__act_schedule($1, $7);
        elsif $6 is not null then
            perform deferred.__function_set($6, $8);
        elsif $3 is not null then
            perform deferred.__queue_set($3, case when $1 = 'set' then $8
                                                  else json_build_object('paused',
                                                      $1 = 'pause') end);
            -- Many may act as one role: it was done by the one of them whom the page knew.
            update deferred.__deferred_queue q set paused_by = left($4, 200)
            where $1 = 'pause' and q.name = $3 and q.paused_at = now();
        elsif $1 = 'cancel' then
            if not deferred.cancel($2)
                then v_refused := format('job %s has ended, there is nothing to cancel', $2);
                end if;
        elsif not deferred.retry($2) then
            v_refused := format('no job %s', $2);
        end if;
        perform set_config('lock_timeout', v_was, true);
    exception
    -- Before the others, of which one names the whole class.
    when lock_not_available then
        v_refused := case when $2 is null then sqlerrm else format('job %s is locked by %s', $2,
            deferred.__holder('deferred.__deferred_hot',
                              (select h.xmax from deferred.__deferred_hot h where h.id = $2))) end;
    when invalid_parameter_value or undefined_object or object_in_use
        or object_not_in_prerequisite_state or unique_violation
            or numeric_value_out_of_range or invalid_text_representation
            or configuration_limit_exceeded or insufficient_privilege then
        get stacked diagnostics v_hint = pg_exception_hint;
        v_refused := sqlerrm || coalesce(' (' || nullif(v_hint, '') || ')', '');
    end;
    insert into deferred.__deferred_action (who, role, login, address, verb, job_id, queue, fn,
                                            schedule, settings, refused)
    values (left($4, 200), deferred.__actor(), session_user, left($5, 200), $1, $2, left($3, 88),
            left($6, 127), left($7, 88), $8, left(v_refused, 1000));
    return v_refused;
end
$$;
grant execute on function deferred.__act to deferred_operator;
