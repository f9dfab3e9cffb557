-- As job_progress.sql. A row that another transaction has locked is left alone. A program that only
-- reports does not wait for a cancel that is not committed.
create or replace function deferred.progress(id bigint, receipt bigint,
                                             done bigint default null, total bigint default null,
                                             text text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    l deferred.__deferred_lease := deferred.__work_lease($1, $2, true);
begin
    if $3 < 0 or $4 < 0 then
        raise exception using errcode = '22003',
            message = format('job %s: progress of %s of %s', $1, $3, coalesce($4::text, 'NULL')),
            hint = 'use numbers from 0 on';
    end if;
    insert into deferred.__deferred_progress as p (job_id, attempt, done, total, text, reported_at)
    select h.id, h.attempt + 1, $3, nullif($4, 0), nullif(left($5, 200), ''), clock_timestamp()
    from (select x.id, x.attempt from deferred.__deferred_hot x
          where x.id = $1 and pg_visible_in_snapshot(x.xid, l.snap) for update skip locked) h
    on conflict (job_id) do update
    set attempt = excluded.attempt, done = excluded.done, total = excluded.total,
        text = excluded.text, reported_at = excluded.reported_at;
end
$$;
comment on function deferred.progress(bigint, bigint, bigint, bigint, text) is
    'reports how far the attempt with this receipt is. Raises 55000 if the receipt is not valid '
    'any more, for example because the job was cancelled';
grant execute on function deferred.progress(bigint, bigint, bigint, bigint, text)
    to deferred_worker, deferred_http;
