-- Part of deferred.maintain(): lets deferred.defer() take the short way again where nobody and
-- nothing is limited any more. The lock waits for transactions that have added a row and keeps out
-- others until the end of this one: then __restrict() has its turn. The look has to be a statement
-- of its own, which sees what they committed; under REPEATABLE READ it would not.
create or replace function deferred.__unrestrict() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from deferred.__deferred_grant)
        or exists (select from deferred.__deferred_function) then
        perform setval('deferred.__deferred_unrestricted', 2)
        where pg_sequence_last_value('deferred.__deferred_unrestricted') = 1;
    elsif pg_sequence_last_value('deferred.__deferred_unrestricted') is distinct from 1
          and current_setting('transaction_isolation') = 'read committed' then
        lock table deferred.__deferred_grant, deferred.__deferred_function in share mode nowait;
        if not exists (select from deferred.__deferred_grant)
            and not exists (select from deferred.__deferred_function) then
            perform setval('deferred.__deferred_unrestricted', 1);
        end if;
    end if;
exception when lock_not_available then
    null;  -- somebody is adding one, or reads for long: until the next call each job is looked at
end
$$;
