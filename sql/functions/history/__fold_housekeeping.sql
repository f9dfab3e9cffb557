-- Once a minute: samples the lengths of queues, adds new pages to the index by time, and once an
-- hour deletes what is old. It does not wait for a vacuum of the log: new pages are then read as a
-- whole.
create or replace function deferred.__fold_housekeeping(p_last timestamptz, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_index regclass := (select i.indexrelid from pg_catalog.pg_index i
        join pg_catalog.pg_class c on c.oid = i.indexrelid
        join pg_catalog.pg_am a on a.oid = c.relam
        where a.amname = 'brin' and i.indrelid = to_regclass('deferred.__deferred_log_'
            || to_char(date_trunc('week', p_now at time zone 'UTC'), 'YYYYMMDD')));
begin
    insert into deferred.__deferred_depth (at, queue, ready, delayed, claimed, more, oldest_s,
                                           paused)
    select p_now, d.queue, d.ready, d.delayed, d.claimed, d.ready_more
        or d.delayed_more, d.oldest_ready_s, d.paused
    from deferred.__depths(1000) d
    on conflict do nothing;
    if date_trunc('hour', p_last) <> date_trunc('hour', p_now) then
        delete from deferred.__deferred_sum s
        where s.span = 1 and s.series = any (array(select x.id from deferred.__deferred_series x))
          and s.at < p_now - interval '8 days';
        delete from deferred.__deferred_sum s
        where s.span = 60 and s.series = any (array(select x.id from deferred.__deferred_series x))
          and s.at < p_now - interval '400 days';
        delete from deferred.__deferred_depth d where d.at < p_now - interval '8 days';
        delete from deferred.__deferred_caller c
        where greatest(c.crashed_at, c.other_at) < p_now - interval '7 days';
    end if;
    perform brin_summarize_new_values(v_index) where v_index is not null;
exception when lock_not_available then
    null;  -- the next minute does it
end
$$;
