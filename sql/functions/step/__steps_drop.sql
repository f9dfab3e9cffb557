-- Deletes the steps of a job that begins from the start. The caller has locked its hot row.
create or replace function deferred.__steps_drop(p_id bigint) returns void
language sql
as $$
    with gone as (
        delete from deferred.__deferred_step s where s.job_id = p_id returning s.bytes)
    update deferred.__deferred_hot h
    set params_bytes = nullif(h.params_bytes - g.bytes, 1024)
    from (select sum(g.bytes)::integer as bytes from gone g) g
    where h.id = p_id and g.bytes is not null
$$;
comment on function deferred.__steps_drop is 'part of deferred.retry(): deletes steps of a job';
