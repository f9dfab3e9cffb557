-- The sum of two histograms of __deferred_sum.
create or replace function deferred.__histogram_add(a bigint[], b bigint[]) returns bigint[]
language sql immutable strict
as $$
    select case when a = '{}' then b when b = '{}' then a else coalesce((
        select array_agg(array[s.bucket, s.n] order by s.bucket)
        from (select x.bucket, sum(x.n)::bigint as n
              from (select a[i][1], a[i][2] from generate_subscripts(a, 1) i
                    union all select b[i][1], b[i][2]
                        from generate_subscripts(b, 1) i) x (bucket, n)
              group by x.bucket having sum(x.n) <> 0) s), '{}') end
$$;
