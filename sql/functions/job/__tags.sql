-- As a producer gives them, each once, in the order given; none: NULL.
create or replace function deferred.__tags(tags json) returns text[]
language plpgsql immutable strict set search_path = pg_catalog, pg_temp
as $$
declare
    v_kind text := json_typeof(tags);
    v_tags text[];
    bad    record;
begin
    if v_kind = 'null' then return null; end if;
    if v_kind <> 'array' then
        raise exception using errcode = '22023',
            message = format('tags must be a JSON array, but a JSON %s was given: %s', v_kind,
                             left(tags::text, 200)),
            hint = 'for example ["invoice", "customer 4711"]';
    end if;
    -- Before anything is made of them: the array is as long as params may be.
    if json_array_length(tags) > 1000 then
        raise exception using errcode = '22003',
            message = format('option ''tags'' has %s tags, more than 32: %s...',
                             json_array_length(tags), left(tags::text, 200)),
            hint = 'a job has at most 32 tags of 1 to 100 characters';
    end if;
    select e.n, json_typeof(e.tag) as kind, e.tag::text as text,
           length(e.tag #>> '{}') as chars into bad
    from json_array_elements(tags) with ordinality as e(tag, n)
    where json_typeof(e.tag) <> 'string' or length(e.tag #>> '{}') not between 1 and 100
    order by e.n limit 1;
    if found then
        raise exception using errcode = case when bad.kind = 'string' then '22003' else '22023' end,
            message = case when bad.kind = 'string' then format('option ''tags'': tag %s has %s '
                                                                'characters: %s',
                                                                bad.n, bad.chars, left(bad.text,
                                                                    200))
                           else format('option ''tags'': tag %s must be a text, but a JSON %s was '
                                       'given: %s',
                                       bad.n, bad.kind, left(bad.text, 200)) end,
            hint = 'a job has at most 32 tags of 1 to 100 characters';
    end if;
    v_tags := array(select e.tag from json_array_elements_text(tags) with ordinality as e(tag, n)
                    group by e.tag order by min(e.n));
    if cardinality(v_tags) > 32 then
        raise exception using errcode = '22003',
            message = format('option ''tags'' has %s tags, more than 32: %s...',
                             cardinality(v_tags), left(tags::text, 200)),
            hint = 'a job has at most 32 tags of 1 to 100 characters';
    end if;
    return nullif(v_tags, '{}');
end
$$;
comment on function deferred.__tags(json) is 'the option tags, checked';
grant execute on function deferred.__tags(json) to deferred_producer;
