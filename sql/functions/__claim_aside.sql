-- What a claim found and does not hand out: jobs that have expired end, those that it may not hand out are put apart, for
-- deferred.__claim_limited(). Rarely called, and not planned before: a start has to plan what it runs.
create or replace function deferred.__claim_aside(p_queue text, p_apart tid[], p_expired tid[]) returns void
language plpgsql
as $$
begin
    if p_apart is not null then
        update deferred.__deferred_hot h set limited = true where h.ctid = any (p_apart);
        update deferred.__deferred_queue q set limited_jobs = true where q.name = p_queue and not q.limited_jobs;
    end if;
    if p_expired is not null then
        with gone as (
            delete from deferred.__deferred_hot h where h.ctid = any (p_expired) returning h.id, h.expires_at)
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, 0, 'expired', true, format('not started before %s', g.expires_at) from gone g;
    end if;
end
$$;
comment on function deferred.__claim_aside is 'ends jobs that have expired, and puts others apart; part of deferred.__claim()';
grant execute on function deferred.__claim_aside to deferred_worker;
