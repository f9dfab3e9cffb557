-- The next jobs of a search that match a filter and that the caller may change: the first `batch`
-- of the next 5,000 jobs.
--
-- The filter is an object with texts fn, queue, label, key, rule and by (the role that deferred
-- it). It has bounds of created_at, since and until, and of the time a job ended, ended_since and
-- ended_until. It has a list tags. Each may be absent or null: any. A job matches if it has all
-- tags. The member error is the kind of its last error: __error_kind(). A job that has not ended
-- has no such kind and no such time. The object `at` says where the search is. Null: at its
-- beginning. The caller passes back the object `after`. Null: that was all.
-- A search ends at the last id drawn when it began, and at the time it began. So a job that fails
-- again meanwhile is not met a second time.
-- Jobs that have ended are met in the order of their ends, then the others in the order of their
-- ids. If no more than 5,000 jobs have the tags, only those are read.
create or replace function deferred.__matching(states text[], filter json, at json, batch integer,
                                               out ids bigint[], out after json)
language plpgsql set search_path = pg_catalog, pg_temp set jit = off
    set plan_cache_mode = force_custom_plan
as $$
declare
    c_look  constant integer := 5000;
    v_fn    text := filter->>'fn';
    v_queue text := filter->>'queue';
    v_label text := filter->>'label';
    v_key   text := filter->>'key';
    v_rule  text := filter->>'rule';
    v_by    text := filter->>'by';
    v_error text := filter->>'error';
    v_tags  text[] := (select array_agg(t.tag)
                       from json_array_elements_text(nullif(filter->>'tags', '')::json) t(tag));
    v_many  boolean := v_tags is null or coalesce((at->>'many')::boolean, false);
    v_few   bigint[];
    v_since timestamptz := (filter->>'since')::timestamptz;
    v_until timestamptz := (filter->>'until')::timestamptz;
    v_ended_since timestamptz := (filter->>'ended_since')::timestamptz;
    v_ended_until timestamptz := (filter->>'ended_until')::timestamptz;
    v_ended boolean := states && '{dead,cancelled,expired}';
    v_hot   boolean := coalesce((at->>'hot')::boolean, not v_ended);
    v_id    bigint := coalesce((at->>'id')::bigint, 0);
    -- a job ends after it was created
    v_time  timestamptz := coalesce((at->>'time')::timestamptz, greatest(
        v_since - interval '1 minute', v_ended_since), '-infinity');
    v_last_id   bigint := coalesce((at->>'last_id')::bigint,
                                   (select s.last_value from deferred.__deferred_id_seq s));
    v_last_time timestamptz := least(coalesce((at->>'last_time')::timestamptz, clock_timestamp()),
                                     v_ended_until - interval '1 us');
    v_more  boolean;
begin
    if not v_many then
        v_few := array(select d.id from deferred.__deferred d where d.tags @> v_tags
                       limit c_look + 1);
        v_many := cardinality(v_few) > c_look;
    end if;
    with walk as materialized (
        (select l.job_id as id, l.finished_at, l.error
         from deferred.__deferred_log l
         where not v_hot and l.final and l.outcome <> 'ok'
           and l.finished_at between v_time and v_last_time
           and (l.finished_at, l.job_id) > (v_time, v_id) and (v_many or l.job_id = any (v_few))
         order by l.finished_at, l.job_id limit c_look)
        union all
        (select h.id, null, null from deferred.__deferred_hot h
         where v_hot and v_error is null and coalesce(v_ended_since, v_ended_until) is null
           and h.id > v_id and h.id <= v_last_id and (v_many or h.id = any (v_few))
         order by h.id limit c_look)),
    found as materialized (
        select w.id, w.finished_at
        from walk w cross join lateral (select x.* from deferred.job x where x.id = w.id offset 0) j
        where j.state = any (states) and j.finished_at is not distinct from w.finished_at
          and (v_fn is null or j.fn = v_fn) and (v_queue is null or j.queue = v_queue)
          and (v_label is null or j.label = v_label)
          and (v_key is null or j.key = v_key) and (v_rule is null or j.rule = v_rule)
          and (v_by is null or j.created_by = v_by)
          and (v_tags is null or j.tags @> v_tags)
          and (v_error is null or deferred.__error_kind(w.error) = v_error)
          and (v_since is null or j.created_at >= v_since)
          and (v_until is null or j.created_at < v_until)
          and deferred.__may_touch(j.created_by::name)
        order by w.finished_at, w.id limit batch)
    select array(select f.id from found f order by f.finished_at, f.id), n.found = batch
        or n.seen = c_look, e.id, e.finished_at
    into ids, v_more, v_id, v_time
    from (select (select count(*) from found) as found, (select count(*) from walk) as seen) n
    left join lateral (
        (select f.id, f.finished_at from found f where n.found = batch
         order by f.finished_at desc, f.id desc limit 1)
        union all
        (select w.id, w.finished_at from walk w where n.found < batch
         order by w.finished_at desc, w.id desc limit 1)) e on true;
    if not v_more then
        if v_hot or not states && '{delayed,waiting,ready,claimed}' then return; end if;
        v_hot := true;
        v_id := 0;
        v_time := null;
    end if;
    after := json_build_object('hot', v_hot, 'id', v_id, 'time', v_time, 'last_id', v_last_id,
                               'last_time', v_last_time, 'many', v_many);
end
$$;
comment on function deferred.__matching is
    'part of "deferred cancel" and "deferred retry": the next jobs that fit a filter';
