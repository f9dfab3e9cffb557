-- Trigger: a row of __deferred_grant or __deferred_function is added or changed. For each job the
-- function deferred.defer() checks whether its role or its function is restricted. To find two
-- tables empty takes a sixth of its time. So the answer is in a sequence, which is read without a
-- snapshot: 1 is no, anything else means that defer() must look. A write to a sequence is visible
-- at once, before the commit, and stays after a rollback. So the sequence is never 1 while there is
-- a row. Only deferred.__unrestrict() sets it back to 1.
create or replace function deferred.__restrict() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform setval('deferred.__deferred_unrestricted', 2);
    return null;
end
$$;

-- Of rows and always: so it is where they come by logical replication, which does not bring
-- sequences.
create or replace trigger __deferred_restrict after insert or update on deferred.__deferred_grant
    for each row execute function deferred.__restrict();
alter table deferred.__deferred_grant enable always trigger __deferred_restrict;
create or replace trigger __deferred_restrict after insert or update on deferred.__deferred_function
    for each row execute function deferred.__restrict();
alter table deferred.__deferred_function enable always trigger __deferred_restrict;
