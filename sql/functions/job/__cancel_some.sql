-- deferred.cancel() of the next `batch` jobs that fit; filter and at: deferred.__matching(). dry:
-- they are counted only.
create or replace function deferred.__cancel_some(state text, filter json, at json, dry boolean,
                                                  batch integer,
    out done bigint, out refused bigint, out why text, out after json)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids bigint[];
begin
    select m.ids, m.after into v_ids, after
    from deferred.__matching(case when state is null then '{ready,delayed,waiting,claimed}'
                                  else array[state] end, filter, at, batch) m;
    select count(*) into done from unnest(v_ids) i where dry or deferred.cancel(i);
    refused := 0;
end
$$;
comment on function deferred.__cancel_some is
    'part of "deferred cancel": cancels some of the jobs that fit a filter';
grant execute on function deferred.__cancel_some to deferred_producer;
