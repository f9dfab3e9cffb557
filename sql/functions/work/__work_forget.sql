-- Ends the runs of programs that have not claimed for 5 minutes and hold nothing.
create or replace function deferred.__work_forget() returns void
language sql
as $$
    update deferred.__deferred_worker w set ended_at = w.seen_at
    where w.ended_at is null and w.mode = 'sql' and w.seen_at < now() - interval '5 minutes'
      and not exists (select from deferred.__deferred_lease l where l.worker = w.id)
$$;
