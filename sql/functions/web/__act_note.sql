-- What a command has done is written down as deferred.__act() does it for a page, in the same
-- statement; what it was refused has failed, and its row with it. Not for who has no more than his
-- own jobs: an application that cancels one is no operator. who: the user of the machine, his word,
-- and the command. Always true.
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
