-- Some jobs of a flow one of which has failed, those between after and upto from the last to the
-- first: so none is told of the end of another that this has cancelled, and begins. That one
-- itself, should it have been retried, callbacks, and those that wait for another one's failure or
-- end are left alone.
-- Rows that somebody has locked are not waited for.
create or replace function deferred.__flow_stop(p_flow bigint, p_after bigint, p_upto bigint,
                                                p_most integer,
    out looked integer, out next bigint, out locked bigint[])
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_failed bigint := (select f.failed from deferred.__deferred_flow f where f.id = p_flow);
    v_some   bigint[];
    v_mine   bigint[];
    v_free   bigint[];
begin
    -- Counted before those to be spared are left out, or however many there are would be one step.
    -- By the key of the table, for which the flow is a range of one: along the index of jobs those
    -- of newer flows would be walked over.
    select coalesce(array_agg(m.job), '{}'),
           coalesce(array_agg(m.job) filter (where m.part is null and m.job <> v_failed),
                    '{}') into v_some, v_mine
    from (select x.job, x.part from deferred.__deferred_member x
          where x.flow between p_flow and p_flow and x.job > p_after and x.job < p_upto
          order by x.flow desc, x.job desc limit p_most) m;
    v_free := array(select h.id from deferred.__deferred_hot h where h.id = any (v_mine)
                    order by h.id desc for update skip locked);
    locked := array(select h.id from deferred.__deferred_hot h
                    where h.id = any (v_mine) and h.id <> all (v_free));
    perform deferred.__cancel(j.id, format('cancelled: job %s of its flow failed', v_failed))
    from unnest(v_free) j(id);
    looked := cardinality(v_some);
    next := case when looked = p_most then v_some[looked] end;
end
$$;
comment on function deferred.__flow_stop is
    'part of deferred.__settle(): cancels some of the jobs that are left of a flow one of which '
    'failed; next: those below it are left; locked: to be looked at again';
