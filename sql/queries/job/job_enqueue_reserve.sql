-- job_enqueue_reserve: reserve ids for jobs that are stored by COPY.
-- params: ids_max int4
-- returns: ids bytea, now_us int8, actor text, limited bool
-- Rows: one row. Column ids: 8 bytes each, as COPY takes them. Column now_us: microseconds since
--   2000 by the database clock. Column actor: the role that acts. Column limited: COPY must not be
--   used, because the role may not defer everything, or some function has a limit.
-- Locks: none. Index: __deferred_grant_role_queue_fn_key.
select (select string_agg(int8send(nextval('deferred.__deferred_id_seq')), '')
        from generate_series(1, $1::integer)) as ids,
    (extract(epoch from clock_timestamp() - timestamptz '2000-01-01 00:00:00+00') *
     1000000)::bigint as now_us,
    deferred.__actor()::text as actor,
    exists (select from deferred.__deferred_grant g
            where g.role in (deferred.__actor(), session_user))
    or exists (select from deferred.__deferred_function) as limited
