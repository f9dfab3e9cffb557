-- The rules of lib/base/mail_rules.c. tests/plugins/test_mail_rules.py compares the verdicts.
-- Names that we write ourselves, those which servers or filters go by, and unknown ones
-- are not listed.
create or replace function deferred.__mail_header_wrong(name text, value text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case
        when name !~ '^[A-Za-z0-9-]{1,50}$' then 'is not the name of a header'
        when not a.plain and not a.text then 'is not among those that a mail may set itself'
        when value is null then 'is not text'
        when value ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' then 'has a control character'
        when value = '' then 'is empty'
        when octet_length(value) > 2000 then 'is longer than 2000 bytes'
        when a.plain and (value !~ E'^[\\u0021-\\u007e]+( +[\\u0021-\\u007e]+)*$'
                          or value ~ '[^ ]{250}[^ ]{251}')
            then 'takes ASCII alone, in words of at most 500 bytes and without blanks around them'
        end
    from (select name ~*
          '^(in-reply-to|references|auto-submitted|precedence|importance|priority|feedback-id|'
          'archived-at|thread-index|list-(id|unsubscribe|unsubscribe-post|archive|help|owner|'
          'post|subscribe))$' as plain,
                 name ~*
                     '^(keywords|comments|organization|thread-topic|'
                     'x-(?!deferred-|spam|original-|envelope-|smtpapi$).+)$' as text) a
$$;
comment on function deferred.__mail_header_wrong is
    'why a mail may not have this header of its own; NULL: it may';
grant execute on function deferred.__mail_header_wrong to deferred_producer;
