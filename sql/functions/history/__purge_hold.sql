-- In the transaction that archives it: nobody else does so with that table. False: somebody does, or it has gone.
create or replace function deferred.__purge_hold(aside text) returns boolean
language sql set search_path = pg_catalog, pg_temp
as $$
    select pg_try_advisory_xact_lock(hashtextextended('deferred.' || aside, 0)) and exists (select from deferred.__asides() a where a.name = aside)
$$;
comment on function deferred.__purge_hold is 'part of "deferred purge --archive": takes a table that was set aside';
grant execute on function deferred.__purge_hold(text) to deferred_purger;
