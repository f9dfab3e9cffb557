-- Attempts of a series that ended in [since, until), and how many of them failed.
create or replace function deferred.__failures(series integer, span integer, since timestamptz,
                                               until timestamptz)
returns table (bad double precision, ended double precision)
language sql stable
as $$
    select coalesce(sum(m.failed + m.crashed + m.timeout + m.lost), 0)::double precision,
           coalesce(sum(m.ok + m.failed + m.crashed + m.timeout + m.lost), 0)::double precision
    from deferred.__deferred_sum m
    where m.span = $2 and m.series = $1 and m.at >= $3 and m.at < $4
$$;
