-- Part of deferred.__settle(): cancels some of the remaining jobs of a flow after one of its jobs
-- failed. If `done` is true, only jobs that were put off remain, because their rows are locked.
--
-- It goes from the last job to the first, so that no job begins because another was cancelled here.
-- It spares callbacks, the failed job if that was retried, and jobs that wait for the failure or
-- the end of another. The note `p_note` says between which jobs it continues.
create or replace function deferred.__flow_stop(p_note deferred.__deferred_ended, p_most integer,
    out looked integer, out done boolean, out put_off boolean)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_failed bigint := (select f.failed from deferred.__deferred_flow f where f.id = p_note.id);
    v_some   bigint[];
    v_mine   bigint[];
    v_free   bigint[];
    v_locked bigint[];
begin
    -- Counted before those to be spared are left out, or all of them would be one step. By the key
    -- of the table, for which the flow is a range of one. The index of jobs would lead past the
    -- jobs of newer flows.
    select coalesce(array_agg(m.job), '{}'),
           coalesce(array_agg(m.job) filter (where m.part is null and m.job <> v_failed),
                    '{}') into v_some, v_mine
    from (select x.job, x.part from deferred.__deferred_member x
          where x.flow between p_note.id and p_note.id
            and x.job > p_note.after and x.job < p_note.upto
          order by x.flow desc, x.job desc limit p_most) m;
    v_free := array(select h.id from deferred.__deferred_hot h where h.id = any (v_mine)
                    order by h.id desc for update skip locked);
    v_locked := array(select h.id from deferred.__deferred_hot h
                      where h.id = any (v_mine) and h.id <> all (v_free));
    perform deferred.__cancel(j.id, format('cancelled: job %s of its flow failed', v_failed))
    from unnest(v_free) j(id);
    looked := cardinality(v_some);
    done := looked < p_most;
    if not done then
        update deferred.__deferred_ended e set upto = v_some[looked] where e.n = p_note.n;
    end if;
    put_off := v_locked <> '{}';
    if put_off then
        insert into deferred.__deferred_ended (id, what, after, upto, late, not_before)
        select p_note.id, 'c', min(j) - 1, max(j) + 1, true,
               clock_timestamp() + interval '500 milliseconds'
        from unnest(v_locked) j;
    end if;
end
$$;
