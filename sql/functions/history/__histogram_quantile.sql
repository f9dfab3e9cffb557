-- Time that a share of a histogram of __deferred_sum was no longer than, microseconds; NULL: it is
-- empty. As histogram_quantile_us() of lib/base/advice/histogram.h: between the bounds of a bucket
-- by the logarithm.
create or replace function deferred.__histogram_quantile(histogram bigint[],
    share double precision) returns double precision
language sql immutable strict
as $$
    with bucket as (
        select h.histogram[i][1] as b, h.histogram[i][2] as n,
               sum(h.histogram[i][2]) over (order by i) as upto,
               sum(h.histogram[i][2]) over () as total
        from (select $1 as histogram) h cross join generate_subscripts(h.histogram, 1) i),
    met as (
        select x.b, x.n, (greatest(0, least(1, $2)) * x.total - (x.upto - x.n)) / x.n as part
        from bucket x where x.n > 0 and x.upto >= greatest(0, least(1, $2)) * x.total order by x.b
        limit 1),
    bound as (
        select m.part, case when m.b = 0 then 1
                            else ('{1,1.25,1.6,2,2.5,3.15,4,5,6.3,8}'::float8[])[(m.b - 1) % 10 + 1]
                                * 10::float8 ^ ((m.b - 1) / 10 + 1) end as low,
               ('{1,1.25,1.6,2,2.5,3.15,4,5,6.3,8}'::float8[])[m.b % 10 + 1] * 10::float8
                   ^ (m.b / 10 + 1) as high
        from met m)
    select exp(ln(o.low) + (ln(o.high) - ln(o.low)) * o.part) from bound o
$$;
