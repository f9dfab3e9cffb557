-- web_accounts: accounts of the HTTP front, without their keys.
-- params: none
-- returns: name text, enabled bool, functions text, created_s int8, key1_s int8, key2_s int8
-- Rows: at most 500
-- Locks: none. Index: primary key of __deferred_account
select a.name, a.enabled, array_to_string(a.functions, ', ') as functions,
       deferred.__age_s(a.created_at) as created_s,
       extract(epoch from clock_timestamp() - a.key1_since)::int8 as key1_s,
       extract(epoch from clock_timestamp() - a.key2_since)::int8 as key2_s
from deferred.__account a order by a.name limit 500
