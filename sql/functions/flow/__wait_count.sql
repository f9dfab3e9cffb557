-- Computes the row of __deferred_wait of a job from its edges. NULL: the job waits for none. A job
-- without such a row gets it from deferred.flow_retry().
create or replace function deferred.__wait_count(p_id bigint) returns deferred.__deferred_wait
language sql stable
as $$
    select p_id, count(*) filter (where e.what is null
                                  or not deferred.__edge_met(e.kind, e.what))::integer,
           min(e.parent) filter (where e.what is not null
                                 and not deferred.__edge_met(e.kind, e.what)),
           coalesce(min(e.parent) filter (where e.kind = 'F' and e.what in ('f', 's')),
                    max(0) filter (where e.kind = 'F')), null::timestamptz
    from deferred.__deferred_edge e where e.child = p_id having count(*) > 0
$$;
comment on function deferred.__wait_count is
    'part of deferred.flow_retry(): what a job waits for, counted';
