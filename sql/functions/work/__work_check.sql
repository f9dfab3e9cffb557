-- Checks the arguments of deferred.claim_jobs(). A claim must see what was committed while it
-- waited for a lock, so it needs a snapshot for each statement.
create or replace function deferred.__work_check(queues text[], functions text[], max integer,
                                                 lease_ms bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = '25001',
            message = format('jobs cannot be claimed in a transaction that is %s',
                             current_setting('transaction_isolation')),
            hint = 'begin it with: begin transaction isolation level read committed';
    elsif ($3 between 1 and 1000) is not true then
        raise exception using errcode = '22003',
            message = format('argument ''max'' is out of range: %s', coalesce($3::text, 'NULL')),
            hint = 'claim 1 to 1000 jobs';
    elsif ($4 between 1 and 604800000) is not true then
        raise exception using errcode = '22003',
            message = format('lease of %s ms is out of range', coalesce($4::text, 'NULL')),
            hint = 'use 1 to 604800000 (7 days)';
    elsif (cardinality($2) between 1 and 1000) is not true then
        raise exception using errcode = '22023',
            message = format('%s functions were given', coalesce(cardinality($2), 0)),
            hint = 'name the 1 to 1000 functions that this program can run';
    elsif cardinality($1) not between 1 and 1000 then
        raise exception using errcode = '22023',
            message = format('%s queues were given', cardinality($1)),
            hint = 'name 1 to 1000 queues, or pass NULL for all';
    end if;
    perform deferred.__name_check('function', f) from unnest($2) f;
    perform deferred.__name_check('queue', q) from unnest($1) q;
end
$$;
