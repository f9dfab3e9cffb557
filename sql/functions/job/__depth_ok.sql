-- Fewer than 513 opening brackets cannot nest deeper than 512: the common case stops there. One
-- expression, so that the planner puts it in the place of the call.
create or replace function deferred.__depth_ok(params json) returns boolean
language sql immutable
as $$
    select length(params::text) - length(translate(params::text, '[{', '')) <= 512
        or deferred.__depth(params) <= 512
$$;
comment on function deferred.__depth_ok(json) is 'true unless params nest deeper than 512 levels';
