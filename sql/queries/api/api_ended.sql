-- api_ended: jobs that clients of the JSON API wait for, and that have ended.
-- params: ids int8[]
-- returns: item int4
-- Rows: one for each of them that has ended, with its place in the array from 1.
-- Locks: none. Index: primary key of __deferred_hot
select e as item from deferred.__api_ended($1::int8[]) e
