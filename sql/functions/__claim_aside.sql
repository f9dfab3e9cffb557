-- What a claim found and does not hand out: jobs that have expired end, those that it may not hand out are put apart, for
-- deferred.__claim_limited(). Rarely called, and not planned before: a start has to plan what it runs.
create or replace function deferred.__claim_aside(p_queue text, p_apart bigint[], p_expired bigint[]) returns void
language plpgsql
as $$
begin
    if p_apart is not null then
        update deferred.__deferred_hot h set limited = true where h.id = any (p_apart);
        update deferred.__deferred_queue q set limited_jobs = true where q.name = p_queue and not q.limited_jobs;
    end if;
    if p_expired is not null then
        with gone as (
            delete from deferred.__deferred_hot h using unnest(p_expired) i where h.id = i and h.expires_at <= now()
            returning h.id, case when h.watched then deferred.__note_end(h.id, 0, 'expired') else 0 end as attempt, h.expires_at)
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, g.attempt, 'expired', true, format('not started before %s', g.expires_at) from gone g;
    end if;
end
$$;
comment on function deferred.__claim_aside is 'ends jobs that have expired, and puts others apart; part of deferred.__claim()';
grant execute on function deferred.__claim_aside to deferred_worker;
