-- Adds a slice of the log to the sums, for whoever may; returns whether there is more; does not
-- fail.
create or replace function deferred.__fold_kept() returns boolean
language plpgsql
as $$
begin
    return (select not f.done from deferred.__fold() f);
exception when others then
    return false;  -- also for a viewer, who reads the sums as workers left them
end
$$;
grant execute on function deferred.__fold_kept to deferred_worker, deferred_viewer;
