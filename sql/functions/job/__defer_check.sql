-- Whatever makes a function run is an act of deferring it: a schedule, a rule, a retry, an on_dead.
create or replace function deferred.__defer_check(owner name, queue text, fn text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    if not deferred.__rule_may_defer($1, $2, $3) then
        raise exception using errcode = '42501',
            message = format('role ''%s'' may not defer ''%s'' to %s',
                             deferred.__actor(), $3,
                             coalesce('queue ''' || $2 || '''', 'every queue')),
            hint = 'an administrator allows it with a row in the table '
                   'deferred.__deferred_grant, see deferred-queue(1)';
    end if;
end
$$;
comment on function deferred.__defer_check is
    'refuses what neither the owner nor who acts may defer';
