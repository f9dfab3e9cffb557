-- The rules of lib/base/mail_rules.c. tests/plugins/test_mail_rules.py compares the verdicts.
create or replace function deferred.__mail_address_wrong(address text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case
        when address is null then 'is NULL'
        when address ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' then 'has a control character'
        when octet_length(a.mail) > 254 or octet_length(a.local) > 64 then 'is too long'
        when coalesce(a.local, '') = '' or a.domain = '' then 'is not a mail address'
        when a.local !~
            E'^([A-Za-z0-9!#$%&''*+/=?^_`{|}~-]|[^\\u0001-\\u007f])+'
            '([.]([A-Za-z0-9!#$%&''*+/=?^_`{|}~-]|[^\\u0001-\\u007f])+)*$'
            then 'is not valid before the @'
        when a.domain !~
            E'^(\\[[A-Za-z0-9.:-]+\\]|([A-Za-z0-9_-]|[^\\u0001-\\u007f])+'
            '([.]([A-Za-z0-9_-]|[^\\u0001-\\u007f])+)*)$'
            then 'is not valid after the @'
        end
    from (select m.mail, substring(m.mail from '^(.*)@[^@]*$') as local,
          substring(m.mail from '@([^@]*)$') as domain
          from (select case when right(address, 1) = '>'
                                and address like '%<%' then substring(address from '<([^<]*)>$')
                                    else address end as mail) m) a
$$;
comment on function deferred.__mail_address_wrong is
    'what is wrong with "a@b" or "Name <a@b>"; NULL: nothing';
grant execute on function deferred.__mail_address_wrong to deferred_producer;
