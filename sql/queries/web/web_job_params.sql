-- web_job_params: what a job was deferred with.
-- $1 job id (int8), $2 characters (int4)
-- returns params, cut to so many characters (text); their length in bytes (int8)
-- locks: none. Index: primary keys of the partitions of __deferred
select left(d.params::text, $2::int4), octet_length(d.params::text)::int8 from deferred.__deferred d where d.id = $1::int8
