-- The sum of histograms of __deferred_sum.
create or replace aggregate deferred.__histogram_sum(bigint[]) (sfunc = deferred.__histogram_add,
    stype = bigint[]);
