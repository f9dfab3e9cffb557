create or replace function deferred.__ended_as(p_id bigint) returns "char"
language sql stable
as $$
    select case when l.outcome = 'ok' then 'o' when l.attempt = 0
                    and l.error like 'skipped: not needed%' then 'n'
                when l.attempt = 0 and l.error like 'skipped: %' then 's' else 'f' end::"char"
    from deferred.__deferred_log l where l.job_id = p_id and l.final
    order by l.finished_at desc, l.attempt desc limit 1
$$;
comment on function deferred.__ended_as is
    'how a job ended that is not hot, as __deferred_edge.what; NULL: its attempts were purged';
grant execute on function deferred.__ended_as to deferred_worker;
