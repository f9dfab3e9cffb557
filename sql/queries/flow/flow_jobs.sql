-- flow_jobs: the jobs of a flow of one's own by name.
-- $1 flow (int8)
-- returns of each: id (int8), name (text or NULL), both as a JSON object (text), in the order they were given in
-- locks: none. Index: primary keys of __deferred_flow, __deferred_member
select j.id, j.name, json_build_object('id', j.id, 'name', j.name)::text from deferred.flow_jobs($1::int8) j
