-- Throws the sums away: deferred.__fold() begins at the oldest row of the log. Those of what was
-- purged are gone then.
create or replace function deferred.__fold_rebuild() returns void
language plpgsql
as $$
declare
    v_first timestamptz;
begin
    perform from deferred.__deferred_folded f for update;
    truncate deferred.__deferred_sum, deferred.__deferred_series, deferred.__deferred_caller;
    select coalesce(min(l.finished_at), now()) into v_first from deferred.__deferred_log l;
    update deferred.__deferred_folded f
    set folded_to = v_first, exact_to = date_bin('1 minute', now() - interval '70 minutes',
                                                 '2000-01-01 00:00+00'), id_to = 0,
                                                 slice = '1 minute';
end
$$;
