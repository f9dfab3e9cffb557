-- Clears a queue step by step, as deferred.__act() does for a page. A step cancels about 1,000 jobs
-- up to last_id (NULL: up to now), or as many as there is time for. Claimed jobs stay. The typed
-- name must be that of the queue. The next step begins at next_id. NULL: that was all.
create or replace function deferred.__act_clear(queue text, typed text, from_id bigint,
                                                last_id bigint, who text, address text,
    out jobs bigint, out refused text, out next_id bigint, out upto bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_begun timestamptz := clock_timestamp();
    v       record;
begin
    perform deferred.__act_allowed();
    jobs := 0;
    upto := coalesce(last_id, deferred.__message_last_id());
    if typed is distinct from queue then
        refused := format('the typed name ''%s'' is not the name of the queue', left(typed, 200));
    elsif not exists (select from deferred.__deferred_queue q
                      where q.name = queue and q.removed_at is null) then
        refused := format('queue ''%s'' does not exist', left(queue, 200));
    else
        next_id := coalesce(from_id, 1);
        loop
            select c.cancelled, c.next_id into v from deferred.__queue_clear(queue, next_id, upto,
                500, true) c;
            jobs := jobs + v.cancelled;
            next_id := v.next_id;
            exit when next_id is null or jobs >= 1000
                or clock_timestamp() > v_begun + interval '600 milliseconds';
        end loop;
    end if;
    if from_id is null or jobs > 0 or refused is not null then
        insert into deferred.__deferred_action (who, role, login, address, verb, queue, jobs,
                                                refused)
        values (left(who, 200), deferred.__actor(), session_user, left(address, 200), 'clear',
                left(queue, 88), jobs, refused);
    end if;
end
$$;
grant execute on function deferred.__act_clear to deferred_operator;
