-- The role that acts: SET ROLE inside a session counts, the definer of these functions does not.
create or replace function deferred.__actor() returns name
language sql stable
as $$
    select coalesce(nullif(current_setting('role', true), 'none'), session_user)::name
$$;
comment on function deferred.__actor() is 'role that acts: the one taken by SET ROLE, else the login role';
grant execute on function deferred.__actor() to deferred_worker;
