-- Attaches a partition for [lo, hi), and moves rows into it that fell into the default partition.
-- Gives up, and leaves all as it was, if the parent cannot be locked at once. If rows of that range
-- are being added now (in_use), nobody may add one meanwhile: it would land in the default
-- partition after the move.
create or replace function deferred.__add_partition(parent text, name text, col text, lo text,
                                                    hi text, in_use boolean default true) returns
                                                        boolean
language plpgsql
as $$
declare
    v_index text;
begin
    if in_use then
        execute format('lock table only deferred.%I in share row exclusive mode', parent);
    end if;
    execute
        format('create table deferred.%I (like deferred.%I including defaults including '
               'constraints including comments)', name, parent);
    execute
        format('with moved as (delete from deferred.%I where %I >= %L and %I < %L returning *) '
               'insert into deferred.%I select * from moved',
                   parent || '_default', col, lo, col, hi, name);
    if parent = '__deferred' then
        for v_index in select deferred.__search_create(name, s.number, s.term, false)
            from deferred.__deferred_search s where s.wanted loop
            execute v_index;
        end loop;
    end if;
    execute
        format('alter table deferred.%I attach partition deferred.%I for values from (%L) to (%L)',
               parent, name, lo, hi);
    return true;
end
$$;
