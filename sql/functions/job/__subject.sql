-- An escape that no text can hold, \u0000 say, is left to send_mail to refuse: the job is stored as
-- ever.
create or replace function deferred.__subject(params json) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
    return nullif(left(params->>'subject', 1000), '');
exception when data_exception then
    return null;
end
$$;
comment on function deferred.__subject is
    'label of a mail that was given none: its subject, NULL where it has none';
