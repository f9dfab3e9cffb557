-- The settings that a pattern can give, as a queue without settings has them. Settings that
-- applications change or that belong to one queue are not among them.
create or replace function deferred.__queue_plain() returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select jsonb_object_agg(k, null)
           || '{"params_max_bytes": 1048576, "on_full": "error", "weight": 1}'
    from unnest('{visibility_timeout_ms,ttl_ms,max_attempts,backoff_floor_ms,backoff_ceiling_ms,
                  backoff_exponent,max_running,rate,burst,max_length,age_ms,
                  key_rate,key_burst}'::text[]) k
$$;
comment on function deferred.__queue_plain() is
    'settings of a queue that a pattern can give, with their defaults';
grant execute on function deferred.__queue_plain() to deferred_viewer;
