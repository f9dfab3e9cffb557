-- admin_migrate_checksums: what deferred.__deferred_source would say of these files.
-- params: texts text[]
-- returns: checksum text
-- Rows: one row for each, in order: SHA-256, hexadecimal.
-- Locks: none
select encode(sha256(convert_to(f.text, 'UTF8')), 'hex') as checksum
from unnest($1::text[]) with ordinality as f(text, n)
order by f.n
