-- For a claim that sets jobs of other functions aside. It waits for a worker that changes its
-- offer, and deferred.__offer() waits for it: then deferred.__known_again() finds what was set
-- aside.
-- A lock of the table, since several lockers of one row would make a multixact.
create or replace function deferred.__functions_offered() returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    lock table deferred.__deferred_offer in row share mode;
    return (select array_agg(o.fn::text) from deferred.__offered o);
end
$$;
comment on function deferred.__functions_offered() is
    'functions that some worker has; NULL: no worker has said so yet';
grant execute on function deferred.__functions_offered() to deferred_worker;
