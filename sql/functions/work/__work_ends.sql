-- When the lease of each claimed job ends. A job with a time limit below the lease gets a lease of
-- its own that ends with the limit. So a program that does not keep the limit loses the job, and
-- this counts as an attempt.
create or replace function deferred.__work_ends(p_worker bigint, p_jobs deferred.__claimed[])
returns timestamptz[]
language plpgsql
as $$
declare
    v_cut  bigint[] := array(select j.id from unnest(p_jobs) j
                             where j.timeout_ms between 1 and j.lease_ms);
    v_said text;
begin
    if v_cut <> '{}' then
        with own as (
            insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone,
                                                   claimed_at, expires_at)
            select l.queue, l.worker, l.receipt, array[j.id], int8range(j.id, j.id, '[]'), l.snap,
                   true, l.claimed_at, l.claimed_at + j.timeout_ms * interval '1 millisecond'
            from unnest(p_jobs) j
            join deferred.__deferred_lease l on l.receipt = j.receipt and l.worker = p_worker
            where j.id = any (v_cut) and j.id = any (l.ids)),
        rest as (
            update deferred.__deferred_lease l
            set ids = array(select i from unnest(l.ids) i where i <> all (v_cut))
            where l.worker = p_worker and l.receipt = any (array(
                select j.receipt from unnest(p_jobs) j where j.id = any (v_cut)))
            and not l.ids <@ v_cut)
        delete from deferred.__deferred_lease l
        where l.worker = p_worker and l.receipt = any (array(
            select j.receipt from unnest(p_jobs) j where j.id = any (v_cut)))
          and l.ids <@ v_cut;
        -- As deferred.__claim_grant() does for leases of one job.
        v_said := set_config('synchronous_commit', 'on', true);
    end if;
    return array(select now() + interval '1 millisecond'
                        * least(j.lease_ms, nullif(j.timeout_ms, 0))
                 from unnest(p_jobs) with ordinality j order by j.ordinality);
end
$$;
