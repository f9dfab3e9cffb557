-- The next statement of "deferred index add" and "rm", to be sent in no transaction. Each statement
-- is for one partition. The newest partition comes first, because people search it most. The
-- catalog says which indexes exist, so a caller continues where another was interrupted. No row:
-- all is done.
--
-- The default partition comes first, and its index is built at once. That partition is almost
-- always empty, so the index costs nothing. A build with CONCURRENTLY waits for every open
-- transaction, and no partition could be added until then.
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
