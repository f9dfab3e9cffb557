create or replace function deferred.__depth_ok(params json) returns boolean
language sql immutable
as $$
    -- Fewer than 513 opening brackets cannot nest deeper than 512: the common case stops there.
    select length(params::text) - length(translate(params::text, '[{', '')) <= 512
        or (select max(depth) <= 512
            from (select sum(case when c in ('[', '{') then 1
                                  else -1 end) over (order by n) as depth
                  from string_to_table(regexp_replace(regexp_replace(params::text,
                      E'"([^"\\\\]|\\\\.)*"', '', 'g'),
                                                      '[^][{}]', '', 'g'), null)
                       with ordinality as t(c, n)) s)
$$;
comment on function deferred.__depth_ok(json) is 'true unless params nest deeper than 512 levels';
