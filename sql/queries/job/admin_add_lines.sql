-- admin_add_lines: defer many jobs given as JSON.
-- $1 array of {"fn", "params", options} (json); its texts reach the table as they stand
-- returns job ids (int8), in the order of the array
-- locks: none that others wait for, but for a job whose key another transaction is storing too
select deferred.defer_many($1::json)
