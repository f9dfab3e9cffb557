-- Deletes the lease of a program that claims by SQL when the lease holds no job any more. It is
-- called when a job has ended. The last job of a batch is checked first. While that job is held,
-- the other jobs are not read.
create or replace function deferred.__work_close(l deferred.__deferred_lease, p_id bigint)
returns void
language sql
as $$
    delete from deferred.__deferred_lease x
    where x.receipt = l.receipt and x.worker = l.worker and deferred.__work_is(l.worker)
      and (x.ids = array[p_id]
           or not exists (
               select from unnest(x.ids) with ordinality i(id, n)
               cross join lateral (
                   select from deferred.__deferred_hot h
                   where h.id = any (array[i.id]) and pg_visible_in_snapshot(h.xid, x.snap)) h
               order by i.n desc limit 1))
$$;
