-- admin_flow_jobs: the jobs of a flow of one's own by name.
-- params: flow int8
-- returns: id int8, name text?, json text
-- Rows: in the order in which they were given
-- Locks: none. Index: primary keys of __deferred_flow, __deferred_member
select j.id, j.name, json_build_object('id', j.id, 'name', j.name)::text as json
from deferred.flow_jobs($1::int8) j
