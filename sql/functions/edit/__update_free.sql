-- True if nobody holds a job. A lease that has ended still holds its job, because a worker has yet
-- to record the attempt.
create or replace function deferred.__update_free(h deferred.__deferred_hot) returns boolean
language sql stable
as $$
    select case when h.fn is null then not deferred.__is_claimed(h)
                else h.receipt is null and not exists (
                    select from deferred.__deferred_lease l
                    where l.span @> h.id and h.id = any (l.ids)
                      and pg_visible_in_snapshot(h.xid, l.snap)) end
$$;
comment on function deferred.__update_free is
    'part of deferred.update(): true: nobody holds the job';
