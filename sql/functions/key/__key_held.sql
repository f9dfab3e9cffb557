-- Until when a row of __deferred_key holds its key. infinity: until its job has started or ended.
-- A time that is past, or -infinity: the key is free.
--
-- The end of the job is looked up in the log, so that no end of a job writes anything. Before the
-- log is purged, deferred.__keys_sweep() stores that time.
create or replace function deferred.__key_held(k deferred.__deferred_key) returns timestamptz
language sql stable
as $$
    select coalesce(
        (select case when k.key_until_ms = 0 and deferred.__key_started(h)
                     then timestamptz '-infinity' else 'infinity' end
         from deferred.__deferred_hot h where h.id = k.job_id),
        k.until,
        case when k.key_until_ms > 0 then
            (select max(l.finished_at) from deferred.__deferred_log l
             where l.job_id = k.job_id and l.final) + k.key_until_ms * interval '1 millisecond' end,
        '-infinity')
$$;
comment on function deferred.__key_held is 'until when a row of __deferred_key holds its key';
grant execute on function deferred.__key_held to deferred_worker, deferred_viewer;
