create or replace function deferred.__depth(params json) returns bigint
language sql immutable
as $$
    select max(s.depth)
    from (select sum(case when t.c in ('[', '{') then 1 else -1 end) over (order by t.n) as depth
          from string_to_table(regexp_replace(regexp_replace(params::text,
              E'"([^"\\\\]|\\\\.)*"', '', 'g'), '[^][{}]', '', 'g'), null)
               with ordinality as t(c, n)) s
$$;
comment on function deferred.__depth(json) is 'how many levels deep params nest';
