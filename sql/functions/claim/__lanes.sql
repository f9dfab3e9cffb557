-- The lanes that may have jobs, from above: by queue, and in a queue by priority. These are the
-- lanes that have a cursor, and between two of them those that a step through the index finds. So
-- the dead entries of lanes with a cursor are not walked over. Of a lane's cursors the newest comes
-- first, not those that a held snapshot keeps.
--
-- Anybody can make many lanes, because a priority is any number. So the caller says how many lanes
-- it takes at most, and then goes on where it was. Its round is "AT/FROM", two lanes, each a queue
-- and a priority with a space between. The lanes below AT come first. The lanes from the first one
-- down to FROM follow. Without FROM the round begins at AT, and without both at the first lane.
create or replace function deferred.__lanes(p_queues text[], p_most integer,
                                            p_round text default null)
returns table (queue text, priority smallint)
language plpgsql stable rows 10
as $$
#variable_conflict use_column
declare
    v_at       text[] := string_to_array(split_part(p_round, '/', 1), ' ');
    v_from     text[] := coalesce(string_to_array(nullif(split_part(p_round, '/', 2), ''), ' '),
                                  v_at);
    v_high     text collate "C" := coalesce(v_at[1], '~');  -- the lanes below it
    v_high_at  integer := coalesce(v_at[2]::integer, 32768);
    v_low      text collate "C" := '';                      -- down to this one
    v_low_at   integer := -32768;
    v_again    boolean := v_at is not null;                 -- and then from the first one
    v_served   text collate "C";
    v_queue    text collate "C";
    v_priority integer;
    v_end      text collate "C";
    v_end_at   integer;
    v_next     record;   -- the next lane that has a cursor
    v_look     boolean;  -- it is to be looked up
    v_lane     record;
begin
    if (v_from[1] collate "C", v_from[2]::integer) < (v_high, v_high_at) then
        v_low := v_from[1];
        v_low_at := v_from[2];
        v_again := false;
    end if;
    loop
        foreach v_served in array case when p_queues is null then array[null]
                        else array(select distinct q collate "C" from unnest(p_queues) q
                                   order by 1 desc) end loop
            continue when v_served > v_high or v_served < v_low;
            v_queue := coalesce(v_served, v_high);
            v_priority := case when v_queue = v_high then v_high_at else 32768 end;
            v_look := true;
            loop
                if v_look then
                    v_look := false;
                    v_end := coalesce(v_served, v_low);
                    v_end_at := case when v_end = v_low then v_low_at else -32768 end - 1;
                    select p.queue, p.priority into v_next from deferred.__deferred_cursor p
                    where (p.queue, p.priority) < (v_queue, v_priority)
                      and (p.queue, p.priority) > (v_end, v_end_at)
                    order by p.queue desc, p.priority desc, p.seq desc limit 1;
                    v_end := coalesce(v_next.queue, v_end);
                    v_end_at := coalesce(v_next.priority, v_end_at);
                end if;
                -- In three steps: the index ends a scan at the bound of its first column only.
                select h.queue, h.priority into v_lane from deferred.__deferred_hot h
                where h.queue = v_queue and h.priority < v_priority
                  and h.priority > case when v_end = v_queue then v_end_at else -32769 end
                  and deferred.__in_lane(h.due_at, h.limited, h.fn)
                order by h.queue desc, h.priority desc limit 1;
                if not found and v_end <> v_queue then
                    select h.queue, h.priority into v_lane from deferred.__deferred_hot h
                    where h.queue < v_queue and h.queue > v_end
                      and deferred.__in_lane(h.due_at, h.limited, h.fn)
                    order by h.queue desc, h.priority desc limit 1;
                    if not found and v_end <> '' then
                        select h.queue, h.priority into v_lane from deferred.__deferred_hot h
                        where h.queue = v_end and h.priority > v_end_at
                          and deferred.__in_lane(h.due_at, h.limited, h.fn)
                        order by h.queue desc, h.priority desc limit 1;
                    end if;
                end if;
                if v_lane.queue is null then
                    exit when v_next.queue is null;
                    v_lane := v_next;
                    v_look := true;
                end if;
                v_queue := v_lane.queue;
                v_priority := v_lane.priority;
                queue := v_queue;
                priority := v_priority;
                return next;
                p_most := p_most - 1;
                if p_most = 0 then return; end if;
            end loop;
        end loop;
        exit when not v_again;
        v_again := false;
        v_low := v_from[1];
        v_low_at := v_from[2];
        v_high := '~';
        v_high_at := 32768;
    end loop;
end
$$;
grant execute on function deferred.__lanes to deferred_worker, deferred_viewer;
