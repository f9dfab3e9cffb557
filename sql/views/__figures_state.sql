-- The first row of figures: now, how far the log was summed and how far the sums were compared with
-- it, in seconds since 1970.
create or replace view deferred.__figures_state as
    select extract(epoch from now())::int8 as at, null::text as queue, null::text as fn,
           null::text as plugin, extract(epoch from f.folded_to)::int8 as ok,
           extract(epoch from f.exact_to)::int8 as failed, 0::int8 as crashed, 0::int8 as timeout,
           0::int8 as interrupted, 0::int8 as superseded, 0::int8 as lost, 0::int8 as cancelled,
           0::int8 as expired, 0::int8 as snoozed, 0::int8 as dead, 0::int8 as arrived,
           0::int8 as wait_us, 0::int8 as run_us, 0::int8 as cpu_us, 0::int8 as max_rss_kb,
           '{}'::text as wait_histogram, '{}'::text as run_histogram, 0 as series
    from deferred.__deferred_folded f;
grant select on deferred.__figures_state to deferred_worker, deferred_viewer;
