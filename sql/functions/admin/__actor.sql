-- Role that acts: the one taken by SET ROLE, else the login role. The role that acts: SET ROLE
-- inside a session counts, the definer of these functions does not. ANALYZE, autovacuum, REINDEX
-- and REFRESH run what the owner of a table has put into its indexes and views, with his rights;
-- but session_user is who maintains it, and would be taken for the one that acts. The server calls
-- that a security-restricted operation, and allows no UNLISTEN in it, which does nothing elsewhere
-- and costs 0.2 us. Nothing is looked up in a search_path here, so none is set, which would cost
-- more than all the rest.
create or replace function deferred.__actor() returns name
language plpgsql
as $$
begin
    unlisten __deferred_actor;
    return case when pg_catalog.current_setting('role', true) operator(pg_catalog.<>) 'none'
                then pg_catalog.current_setting('role', true) else session_user end;
end
$$;
grant execute on function deferred.__actor to deferred_producer;
