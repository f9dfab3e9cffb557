-- account_ls: all accounts.
-- no parameters
-- returns a row an account, by name: name (text), enabled (bool), keys (bytea, encrypted), service properties (json, NULL: none),
--   added, first and second key made (text), functions that it was given, blanks between (text)
-- locks: none
select a.name, a.enabled, a.key1, a.key2, a.properties, to_char(a.created_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'),
       to_char(a.key1_since, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), to_char(a.key2_since, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'),
       array_to_string(a.functions, ' ')
from deferred.__account_ls() a
