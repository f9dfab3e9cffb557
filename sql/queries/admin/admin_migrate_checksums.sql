-- admin_migrate_checksums: what deferred.__deferred_source would say of these files.
-- $1 text text[]
-- returns one row for each, in order: SHA-256, hexadecimal (text)
-- locks: none
select encode(sha256(convert_to(f.text, 'UTF8')), 'hex')
from unnest($1::text[]) with ordinality as f(text, n)
order by f.n
