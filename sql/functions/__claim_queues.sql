-- Which queues have jobs, one step through the index for each of them: those without cost nothing, however many there are. What is dead
-- is walked over only in queues that the cursor does not know (lib/base/cursor.h).
create or replace function deferred.__claim_queues(queues text[], cursor_queues text[]) returns table (name text, known boolean)
language plpgsql stable rows 10
as $$
declare
    v_name text collate "C" := '';
    v_next text collate "C";
    v_stop text collate "C";
begin
    if queues is not null then
        return query select distinct q, q = any (cursor_queues) from unnest(queues) q;
        return;
    end if;
    foreach v_stop in array cursor_queues || '~'::text loop  -- which is behind all names
        continue when v_stop = v_name;
        known := false;
        loop
            select h.queue into v_next from deferred.__deferred_hot h
            where h.queue > v_name and h.queue < v_stop and h.due_at is null and not h.limited and h.fn is not null
            order by h.queue limit 1;
            exit when not found;
            v_name := v_next;
            name := v_name;
            return next;
        end loop;
        exit when v_stop = '~';
        known := true;
        v_name := v_stop;
        name := v_name;
        return next;
    end loop;
end
$$;
comment on function deferred.__claim_queues is 'the queues a claim asks: those served, or if all are, those its cursor knows, in order, and others that have jobs, claimed ones too';
grant execute on function deferred.__claim_queues to deferred_worker;
