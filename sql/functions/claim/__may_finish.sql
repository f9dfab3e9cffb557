-- A receipt alone is not enough: processes of one operating-system user can read it from each
-- other. A function may have a role of its own, which is then a member of the roles whose jobs it
-- runs.
create or replace function deferred.__may_finish(id bigint) returns boolean
language sql stable
as $$
    select exists (
        select from deferred.__deferred d
        where d.id = $1
          and (deferred.__may_touch(d.created_by::name)
               or exists (select from pg_roles r, pg_roles a
                          where r.rolname = d.created_by and a.rolname = deferred.__actor()
                            and pg_has_role(a.oid, r.oid, 'member'))))
$$;
comment on function deferred.__may_finish(bigint) is
    'true for who deferred a job and for members of that role, for workers, operators and '
    'administrators';
