-- Writes down what a command did, as deferred.__act() does for a page, in the same statement: a
-- command that fails leaves no row. Not for roles that may only touch their own jobs. The argument
-- who is the user of the machine, as the command says, and the command. Always true.
create or replace function deferred.__act_note(who text, verb text, job bigint default null,
                                               queue text default null, fn text default null,
                                               schedule text default null,
    flow bigint default null, settings json default null, filter json default null,
    jobs bigint default null, refused text default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if deferred.__may_touch(null) then
        insert into deferred.__deferred_action (who, role, login, verb, job_id, queue, fn, schedule,
                                                flow, settings, filter, jobs, refused)
        values (left($1, 200), deferred.__actor(), session_user, $2, $3, left($4, 88),
                left($5, 127), left($6, 88), $7,
                case when octet_length($8::text) <= 4000 then $8 end, json_strip_nulls($9), $10,
                    left($11, 1000));
    end if;
    return true;
end
$$;
grant execute on function deferred.__act_note to deferred_producer, deferred_operator;
