-- admin_add_lines: defer many jobs given as JSON.
-- params: jobs json
-- returns: job int8
-- $1 array of {"fn", "params", options}; its texts reach the table as they stand.
-- Rows: job ids, in the order of the array.
-- Locks: none that others wait for, except for a job whose key another transaction is storing too.
select deferred.defer_many($1::json) as job
