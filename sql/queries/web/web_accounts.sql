-- web_accounts: accounts of the HTTP front, without their keys.
-- no parameters
-- returns account (text), enabled (bool), functions it may use (text), seconds since it was added, since its first and its second key were made (int8); 500 rows at most
-- locks: none. Index: primary key of __deferred_account
select a.name, a.enabled, array_to_string(a.functions, ', '), extract(epoch from clock_timestamp() - a.created_at)::int8,
       extract(epoch from clock_timestamp() - a.key1_since)::int8, extract(epoch from clock_timestamp() - a.key2_since)::int8
from deferred.__account a order by a.name limit 500
