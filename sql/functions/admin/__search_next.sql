-- The next statement of "deferred index add" and "rm", to be sent in no transaction. Each is one of
-- a partition, the newest first, which people look for; what stands is found in the catalog, so
-- that whoever calls goes on where another was interrupted. No row: all is done.
--
-- The net comes first, and at once: it is empty, but for a moment, so its index costs nothing, and
-- one that is built CONCURRENTLY, which waits for whatever transaction is open, would keep
-- partitions from being added meanwhile.
create or replace function deferred.__search_next(p_term text, out what text, out part text,
                                                  out statement text, out part_rows bigint)
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
as $$
declare
    v record;
begin
    loop
        select x.* into v from deferred.__search_indexes() x
        where x.term = p_term and case when x.wanted then not x.valid else x.name is not null end
        order by x.net desc, length(x.part) desc, x.part desc limit 1;
        if not found then
            delete from deferred.__deferred_search s where s.term = p_term and not s.wanted;
            return;
        end if;
        part := v.part;
        part_rows := v.part_rows;
        exit when not v.net;
        what := 'wait';
        if v.wanted then
            execute deferred.__search_create(v.part, v.number, v.term, false);
        else
            execute format('drop index deferred.%I', v.name);
        end if;
    end loop;
    what := case when not v.wanted then 'drop' when v.name is null then 'build'
                 when v.busy then 'wait' else 'leftover' end;
    statement := case what when 'build' then deferred.__search_create(v.part, v.number, v.term,
        true)
                           when 'wait' then null else
                               format('drop index concurrently if exists deferred.%I', v.name) end;
exception when lock_not_available then
    return;
end
$$;
