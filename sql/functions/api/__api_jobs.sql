-- GET /v1/jobs: the newest jobs below the id `after` that match, 100 at most. Looks at 10,000 jobs,
-- and at the states of 1,000. The member next is the value of after for the next page. Null: that
-- was all.
create or replace function deferred.__api_jobs(t deferred.__deferred_token,
                                               given json) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    c_states constant text[] := '{ready,delayed,waiting,claimed,done,dead,cancelled,expired}';
    v_all    boolean := t.may && '{read,control}';
    v_after  bigint := case when given->>'after' ~ '^[0-9]{1,18}$'
                            then (given->>'after')::bigint end;
    v_jobs   json;
    v_last   bigint[];
begin
    if given->>'after' is not null and v_after is null then
        raise exception using errcode = '22023',
            message = format('parameter ''after'' is not the id of a job: ''%s''',
                             left(given->>'after', 200)),
            hint = 'pass the member next of the page before';
    elsif given->>'state' <> all (c_states) then
        raise exception using errcode = '22023',
            message = format('state ''%s'' is unknown', left(given->>'state', 200)),
            hint = 'known states: ' || array_to_string(c_states, ', ');
    end if;
    with walk as materialized (
        select d.id, d.queue, d.fn, d.label, d.created_by from deferred.__deferred d
        where d.id < coalesce(v_after, 9223372036854775807) order by d.id desc limit 10000),
    kept as materialized (
        select w.id from walk w
        where (w.created_by = 'token:' || t.name
               or v_all and deferred.__token_allows(t.functions, w.fn)
                  and deferred.__token_allows(t.queues, w.queue))
          and (given->>'fn' is null or w.fn = given->>'fn')
          and (given->>'queue' is null or w.queue = given->>'queue')
          and (given->>'label' is null or w.label = given->>'label')
        order by w.id desc limit 1000),
    page as materialized (
        select j.* from kept k
        cross join lateral (select x.* from deferred.job x where x.id = k.id offset 0) j
        where given->>'state' is null or j.state = given->>'state'
        order by j.id desc limit 100)
    select coalesce(json_agg(json_build_object('id', p.id, 'state', p.state, 'fn', p.fn, 'queue',
                        p.queue, 'label', p.label, 'key', p.key, 'priority', p.priority, 'attempt',
                        p.attempt, 'created_at', p.created_at, 'created_by', p.created_by,
                        'visible_at', p.visible_at, 'started_at', p.started_at, 'finished_at',
                        p.finished_at, 'tags', p.tags) order by p.id desc), '[]'),
           array[case when count(*) = 100 then min(p.id) end,
                 (select min(k.id) from kept k having count(*) = 1000),
                 (select min(w.id) from walk w having count(*) = 10000)]
    into v_jobs, v_last from page p;
    return json_build_object('jobs', v_jobs, 'next', coalesce(v_last[1], v_last[2], v_last[3]));
end
$$;
