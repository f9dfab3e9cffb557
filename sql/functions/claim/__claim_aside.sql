-- Handles the jobs that a claim found and does not hand out. Expired jobs end. Jobs that the claim
-- may not hand out are marked for deferred.__claim_limited(). If no worker has their function, they
-- are also marked as unknown. Rarely called, and not planned before: a start has to plan what it
-- runs.
--
-- Rows that somebody has locked are not waited for, because the claim holds its lane. Their ids are
-- returned.
create or replace function deferred.__claim_aside(p_queue text, p_apart bigint[],
                                                  p_expired bigint[]) returns bigint[]
language plpgsql
as $$
declare
    v_offered text[];
    v_free bigint[] := array(select h.id from deferred.__deferred_hot h
                             where h.id = any (p_apart || p_expired) for update skip locked);
begin
    if p_apart is not null then
        v_offered := deferred.__functions_offered();
        update deferred.__deferred_hot h
        set limited = true, unknown = coalesce(h.concurrency_key is null
                                               and h.fn not in (select unnest(v_offered))
                                               and v_offered <> '{}', false)
        where h.id = any (array(select unnest(p_apart) intersect select unnest(v_free)));
        perform deferred.__limited_add(p_queue);
    end if;
    if p_expired is not null then
        with gone as (
            delete from deferred.__deferred_hot h
            using (select unnest(p_expired) intersect select unnest(v_free)) i(id)
            where h.id = i.id and h.expires_at <= now()
            returning h.id, case when h.watched then deferred.__note_end(h.id, 0, 'expired')
                                 else 0 end as attempt, h.expires_at)
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, g.attempt, 'expired', true, format('not started before %s', g.expires_at)
        from gone g;
    end if;
    return array(select unnest(p_apart || p_expired) except select unnest(v_free));
end
$$;
grant execute on function deferred.__claim_aside to deferred_worker;
