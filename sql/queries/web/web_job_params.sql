-- web_job_params: what a job was deferred with.
-- params: job int8, chars_max int4
-- returns: params text, bytes int8
-- Rows: params, cut to $2 characters; their length in bytes
-- Locks: none. Index: primary keys of the partitions of __deferred
select left(d.params::text, $2::int4) as params, octet_length(d.params::text)::int8 as bytes
from deferred.__deferred d where d.id = $1::int8
