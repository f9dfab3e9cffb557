-- The rules of lib/base/mail_rules.c. tests/plugins/test_mail_rules.py compares the verdicts.
create or replace function deferred.__mail_type_wrong(type text, is_text boolean) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case
        when octet_length(type) > 127 or type ~ E'[^\\u0020-\\u007e]'
             or type !~ format('^[A-Za-z0-9]%s*/[A-Za-z0-9]%s*( *;|$)', t.letter, t.letter)
            then 'has a type that is not TYPE/SUBTYPE'
        when type !~ format('^[^ ;]*(%s)*$', t.parameter)
            then 'has a type whose parameters are not ''; NAME=VALUE'''
        when type ~* '^multipart/' or type ~* '^message/'
            and type !~* '^message/(rfc822|global)( *;|$)'
            then 'has a type that a file cannot have'
        when is_text and type ~* '^text/'
             and (select lower(m[2]) !~ '^"?utf-8(?![a-z0-9!#$%&''*+.^_`{|}~-])'
                  from regexp_matches(type, t.parameter, 'g') m
                  where lower(m[1]) = 'charset' limit 1)
            then 'has content in UTF-8 and a type of another charset: give it as content_base64'
        end
    from (select x.letter, format(E' *; *(%s+)=(%s+|"[^"\\\\]*")', x.letter, x.letter) as parameter
          from (select '[A-Za-z0-9!#$%&''*+.^_`{|}~-]' as letter) x) t
$$;
comment on function deferred.__mail_type_wrong is
    'why a file of a mail cannot have this type; is_text: its content is text; NULL: it can';
grant execute on function deferred.__mail_type_wrong to deferred_producer;
