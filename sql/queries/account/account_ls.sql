-- account_ls: all accounts.
-- params: none
-- returns: name text, enabled bool, key1 bytea, key2 bytea, properties json?, created text,
--   key1_since text, key2_since text, functions text
-- Rows: by name. Keys are encrypted. Functions have blanks between them
-- Locks: none
select a.name, a.enabled, a.key1, a.key2, a.properties,
       to_char(a.created_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as created,
       to_char(a.key1_since, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as key1_since,
       to_char(a.key2_since, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as key2_since,
       array_to_string(a.functions, ' ') as functions
from deferred.__account_ls() a
