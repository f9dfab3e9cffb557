-- True for the owner of a rule and members of it.
create or replace function deferred.__rule_is_mine(owner regrole) returns boolean
language sql stable
as $$
    -- An owner that was dropped is nobody's.
    select exists (select from pg_roles r where r.oid = owner
                   and pg_has_role(deferred.__actor(), r.oid, 'member'))
$$;
