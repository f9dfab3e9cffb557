-- The settings that a pattern can give, as a queue without settings has them. Settings that
-- applications change or that belong to one queue are not among them.
create or replace function deferred.__queue_plain() returns jsonb
language sql immutable
as $$
    select '{"params_max_bytes": 1048576, "visibility_timeout_ms": null, "ttl_ms": null,
             "max_attempts": null, "backoff_floor_ms": null, "backoff_ceiling_ms": null,
             "backoff_exponent": null, "max_running": null, "rate": null, "burst": null,
             "max_length": null, "on_full": "error", "weight": 1}'::jsonb
$$;
comment on function deferred.__queue_plain() is
    'settings of a queue that a pattern can give, with their defaults';
grant execute on function deferred.__queue_plain() to deferred_viewer;
