-- Role that acts: the one taken by SET ROLE, else the login role. The definer of a function is not
-- it. A request of deferred_http with a token acts as `token:NAME`: deferred.__api_begin().
--
-- ANALYZE, autovacuum, REINDEX and REFRESH run what the owner of a table has put into its indexes
-- and views, with the owner's rights. But session_user is the role that maintains the table, and
-- would be taken for the one that acts. The server calls that a security-restricted operation, and
-- refuses UNLISTEN in it, which does nothing elsewhere and costs 0.2 us. No name is looked up in a
-- search_path here, so none is set: that would cost more than all the rest.
create or replace function deferred.__actor() returns name
language plpgsql
as $$
begin
    unlisten __deferred_actor;
    -- Not in the expression below: a call in it would make it twice as slow.
    if pg_catalog.current_setting('deferred.token', true) operator(pg_catalog.<>) '' then
        if deferred.__acting_token() is not null then
            return deferred.__acting_token();
        end if;
    end if;
    return case when pg_catalog.current_setting('role', true) operator(pg_catalog.<>) 'none'
                then pg_catalog.current_setting('role', true) else session_user end;
end
$$;
grant execute on function deferred.__actor to deferred_producer;
