-- The lanes that may have jobs: those that have a place, and those found by a step through the index for each. Between two lanes
-- that have a place only: what is dead in these is not walked over. From above, so that of a lane's places the newest comes first, and not
-- those that a held snapshot keeps. Places of empty lanes stay, where there are more than a few until
-- deferred.__repair(), and anybody may have made many, for a priority is any number: so there is an end to those that are asked.
create or replace function deferred.__lanes(p_queues text[]) returns table (queue text, priority smallint)
language plpgsql stable rows 10
as $$
#variable_conflict use_column
declare
    v_most     constant integer := 256;
    v_asked    integer := 0;
    v_served   text collate "C";
    v_queue    text collate "C";
    v_priority integer;
    v_next     record;
    v_lane     record;
begin
    foreach v_served in array case when p_queues is null then array[null] else array(select distinct q from unnest(p_queues) q) end loop
        v_queue := coalesce(v_served, '~');
        v_priority := 32768;
        loop
            select p.queue, p.priority into v_next from deferred.__deferred_place p
            where (p.queue, p.priority) < (v_queue, v_priority) and (v_served is null or p.queue = v_served) and v_asked < v_most
            order by p.queue desc, p.priority desc, p.seq desc limit 1;
            loop
                -- In three steps, each within one queue or between two: the index ends a scan at the bound of its first column only.
                select h.queue, h.priority into v_lane from deferred.__deferred_hot h
                where h.queue = v_queue and h.priority < v_priority
                  and h.priority > case when v_next.queue = v_queue then v_next.priority::integer else -32769 end
                  and h.due_at is null and not h.limited and h.fn is not null
                order by h.queue desc, h.priority desc limit 1;
                if not found and v_next.queue is distinct from v_queue and v_served is null then
                    select h.queue, h.priority into v_lane from deferred.__deferred_hot h
                    where h.queue < v_queue and h.queue > coalesce(v_next.queue, '') and h.due_at is null and not h.limited and h.fn is not null
                    order by h.queue desc, h.priority desc limit 1;
                    if not found and v_next.queue is not null then
                        select h.queue, h.priority into v_lane from deferred.__deferred_hot h
                        where h.queue = v_next.queue and h.priority > v_next.priority and h.due_at is null and not h.limited and h.fn is not null
                        order by h.queue desc, h.priority desc limit 1;
                    end if;
                end if;
                exit when v_lane.queue is null;
                v_queue := v_lane.queue;
                v_priority := v_lane.priority;
                queue := v_queue;
                priority := v_priority;
                return next;
            end loop;
            exit when v_next.queue is null;
            v_asked := v_asked + 1;
            v_queue := v_next.queue;
            v_priority := v_next.priority;
            queue := v_queue;
            priority := v_priority;
            return next;
        end loop;
    end loop;
end
$$;
comment on function deferred.__lanes is 'queues and priorities that may have ready jobs; p_queues: those served, NULL: all';
grant execute on function deferred.__lanes to deferred_worker, deferred_viewer;
