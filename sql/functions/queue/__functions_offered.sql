-- For a claim that sets jobs of other functions aside. A worker that is changing its offer is waited
-- for, and the next one waits for the claim: then deferred.__offer() finds what was set aside.
create or replace function deferred.__functions_offered() returns text[]
language plpgsql
as $$
begin
    perform from deferred.__deferred_limit_guard g where g.n = 2048 for share;
    return (select array_agg(o.fn::text) from deferred.__offered o);
end
$$;
comment on function deferred.__functions_offered() is 'functions that some worker has; NULL: no worker has said so yet';
grant execute on function deferred.__functions_offered() to deferred_worker;
