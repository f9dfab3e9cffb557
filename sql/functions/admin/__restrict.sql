-- deferred.defer() asks for each job whether anybody is limited in what he defers, or any function
-- in how it is run. To find two tables empty costs a sixth of all it does, so the answer stands in
-- a sequence, which is read without a snapshot: 1 says no, anything else that one has to look. What
-- is written there is seen at once, before this commits, and stays if it does not, so that no time
-- is left in which a row is there and 1 is said. Only deferred.__unrestrict() goes back to 1.
create or replace function deferred.__restrict() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform setval('deferred.__deferred_unrestricted', 2);
    return null;
end
$$;
comment on function deferred.__restrict() is
    'trigger: a row of __deferred_grant or __deferred_function is added or changed';

-- Of rows and always: so it is where they come by logical replication, which does not bring
-- sequences.
create or replace trigger __deferred_restrict after insert or update on deferred.__deferred_grant
    for each row execute function deferred.__restrict();
alter table deferred.__deferred_grant enable always trigger __deferred_restrict;
create or replace trigger __deferred_restrict after insert or update on deferred.__deferred_function
    for each row execute function deferred.__restrict();
alter table deferred.__deferred_function enable always trigger __deferred_restrict;
