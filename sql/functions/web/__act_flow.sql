-- Does to a flow what an operator asked for on a page, as deferred.__act(): its last 1,000 jobs
-- before one, see deferred.flow_cancel(). A retry is only noted, because workers do it.
create or replace function deferred.__act_flow(verb text, flow bigint, before bigint, who text,
                                               address text, out jobs bigint, out refused text,
                                               out next bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    if verb not in ('retry', 'cancel') is not false or flow is null then
        raise exception using errcode = '22023',
            message = format('action ''%s'' on a flow is unknown', left(verb, 100)),
            hint = 'deferred_web and the database have different versions: run deferred migrate '
                   'of the newer one';
    end if;
    perform deferred.__act_allowed();
    begin
        if verb = 'cancel' then
            select c.cancelled, c.next into jobs, next from deferred.flow_cancel(flow, before) c;
        elsif not deferred.flow_retry(flow) then
            refused := format('flow %s is being begun again already', flow);
        end if;
    exception when no_data_found or insufficient_privilege then
        refused := sqlerrm;
    end;
    if before is null or jobs > 0 or refused is not null then
        insert into deferred.__deferred_action (who, role, login, address, verb, flow, jobs,
                                                refused)
        values (left(who, 200), deferred.__actor(), session_user,
                left(address, 200), verb, flow, jobs, left(refused, 1000));
    end if;
end
$$;
grant execute on function deferred.__act_flow to deferred_operator;
