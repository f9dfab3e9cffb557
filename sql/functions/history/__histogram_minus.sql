create or replace function deferred.__histogram_minus(a bigint[]) returns bigint[]
language sql immutable strict
as $$
    select coalesce((select array_agg(array[a[i][1], -a[i][2]] order by i) from generate_subscripts(a, 1) i), '{}')
$$;
comment on function deferred.__histogram_minus(bigint[]) is 'a histogram of __deferred_sum that takes another one away';
