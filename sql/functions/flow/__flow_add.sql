-- Adds only jobs that this transaction has stored since deferred.__flow_join() returned the mark. A
-- new job whose key is taken stands for the job that has the key, which stays where it is.
--
-- No cycle can arise. The callbacks of a closed flow wait for a job that is added to it. That job
-- waits only for jobs of the flow, or for jobs older than the callbacks, which do not wait for
-- callbacks. This is checked last, when no other transaction can have stored a job unseen.
create or replace function deferred.__flow_add(p_flow bigint, p_mark bigint,
                                               p_ids bigint[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids   bigint[];
    v_wrong record;
begin
    perform deferred.__flow_join(p_flow);
    v_ids := array(select distinct h.id from unnest(p_ids) u(id)
                   join deferred.__deferred_hot h on h.id = u.id
                   where u.id > p_mark and h.xid = pg_current_xact_id() order by h.id);
    if exists (select from deferred.__deferred_hot h where h.id = any (v_ids) and h.fn is null) then
        raise exception using errcode = '22023',
            message = 'option ''flow'' is not allowed for a message',
            hint = 'name a function, or leave the option out';
    end if;
    insert into deferred.__deferred_member (flow, job, part)
    select p_flow, j.id,
           case when exists (select from deferred.__deferred_edge e
                             join deferred.__deferred_member p on p.job = e.parent
                                 and p.flow = p_flow
                             where e.child = j.id and e.kind <> 'o') then 's' end::"char"
    from unnest(v_ids) j(id);
    select e.* into v_wrong
    from deferred.__deferred_flow_open o join deferred.__deferred_edge e on e.child = any (v_ids)
    where o.flow = p_flow and e.parent >= o.callbacks[1]
      and not exists (select from deferred.__deferred_member m
                      where m.job = e.parent and m.flow = p_flow and m.part is distinct from 't')
    limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('option ''after'': job %s was deferred after flow %s was closed',
                             v_wrong.parent, p_flow),
            hint = 'name jobs of the flow, or jobs older than the callbacks of the flow';
    end if;
    update deferred.__deferred_hot h set watched = true
    from deferred.__deferred_flow f where f.id = p_flow and f.on_failure = 'cancel'
        and h.id = any (v_ids);
end
$$;
comment on function deferred.__flow_add(bigint, bigint, bigint[]) is
    'makes jobs that were just stored jobs of a flow; part of option "flow"';
grant execute on function deferred.__flow_add(bigint, bigint, bigint[]) to deferred_producer;
