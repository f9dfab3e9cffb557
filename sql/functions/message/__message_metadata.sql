create or replace function deferred.__message_metadata(metadata json, fn text,
                                                       max_dequeue integer) returns json
language sql stable
as $$
    with own as materialized (
        select e.key, e.value, e.n, deferred.__message_setting(e.key) as setting
        from json_each_text(case when json_typeof($1) = 'object' then $1
                                 else '{}' end) with ordinality as e(key, value, n))
    select coalesce(json_object_agg(m.key, m.value order by m.n), '{}')
    from (select o.key, case o.setting when 'deferredfunction' then $2
                             when 'deferredmaxdequeue' then $3::text else o.value end as value, o.n
                                 from own o
          union all select 'deferredfunction', $2, 1e9
              where not exists (select from own o where o.setting = 'deferredfunction')
          union all select 'deferredmaxdequeue', $3::text, 1e9 + 1
              where not exists (select from own o where o.setting = 'deferredmaxdequeue')) m
    where m.value is not null
$$;
comment on function deferred.__message_metadata is 'metadata of a queue as consumers see them';
