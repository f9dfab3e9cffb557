-- An index for searches is wanted; part of "deferred index add". Only its owner may: nobody else
-- has been granted it. From its commit on new partitions get the index; those that are there get it
-- step by step: __search_next().
create or replace function deferred.__search_add(p_term text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_most constant integer := 4;
    v_keys text[] := string_to_array(substr(p_term, 8), '.');
begin
    if p_term is distinct from 'label' and coalesce(p_term not like 'params.%', true) then
        raise exception using errcode = '22023',
            message = format('search term ''%s'' cannot have an index', left(p_term, 64)),
            hint = 'use label, or params. and the keys of a value, such as params.customer.id';
    end if;
    if p_term <> 'label' and (octet_length(p_term) > 200 or cardinality(v_keys) not between 1 and 16
                              or '' = any (v_keys) or p_term ~ '[[:cntrl:]]') then
        raise exception using errcode = '22023',
            message = format('search term ''%s'' cannot have an index', left(p_term, 64)),
            hint = 'use 1 to 16 keys of at most 200 bytes in total, none of them empty or with '
                   'control characters';
    end if;
    -- A transaction that is adding a partition has not seen the new index, so this waits for it.
    perform from deferred.__deferred_upkeep for update;
    if not exists (select from deferred.__deferred_search s where s.term = p_term)
        and (select count(*) >= v_most from deferred.__deferred_search) then
        raise exception using errcode = '54000',
            message = format('%s search indexes exist already', v_most),
            hint = 'each index makes every defer slower; remove one: deferred index ls, deferred '
                   'index rm';
    end if;
    insert into deferred.__deferred_search (term)
    values (p_term) on conflict (term) do update set wanted = true;
end
$$;
