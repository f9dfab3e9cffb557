-- The rules of lib/base/mail_rules.c, and of take_attachment() in
-- lib/plugins/send_mail/mail_params.c.
-- tests/plugins/test_mail_rules.py compares the verdicts. Only the worker
-- knows mail.attachment_dir.
create or replace function deferred.__mail_file_wrong(file json, has_html boolean) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_lines constant text[] := '{path,name,type,cid}';
    f record;
begin
    if json_typeof(file) <> 'object' then
        return 'is not an object';
    end if;
    select count(*) > count(distinct m.key) as repeated,
           min(m.key) filter (where m.key not in ('path', 'name', 'type', 'content',
                                                  'content_base64', 'cid',
                                                  'delete_after_send')) as unknown,
           min(m.key) filter (where json_typeof(m.value) <> 'null' and json_typeof(m.value) <>
                              case m.key when 'delete_after_send' then 'boolean' else 'string' end)
               as wrong,
           min(m.text) filter (where m.key = 'path') as path,
           min(m.text) filter (where m.key = 'name') as name,
           nullif(min(m.text) filter (where m.key = 'type'), '') as type,
           min(m.text) filter (where m.key = 'cid') as cid,
           count(m.text) filter (where m.key in ('path', 'content', 'content_base64')) as sources,
           count(m.text) filter (where m.key = 'content') > 0 as is_text,
           min(array_position(v_lines, m.key))
               filter (where m.text ~ E'[\\u0001-\\u001f\\u007f-\\u009f]') as control,
           translate(min(m.text) filter (where m.key = 'content_base64'), E'\r\n', '') as base64
    into f
    from (select e.key, e.value, e.value #>> '{}' as text from json_each(file) e) m;
    return case
        when f.unknown is not null
            then format('has the unknown member ''%s''', left(f.unknown, 100))
        when f.repeated then 'has a member twice'
        when f.wrong = 'delete_after_send'
            then 'has a delete_after_send that is neither true nor false'
        when f.wrong is not null then format('has a %s that is not text', f.wrong)
        when f.control is not null
            then format('has a control character in its %s', v_lines[f.control])
        when f.sources <> 1 then 'needs one of ''content'', ''content_base64'' and ''path'''
        when f.path !~ '^/' then 'has a path that is not absolute'
        when coalesce(f.name, '') = '' and coalesce(f.path ~ '/$', true) then 'has no name'
        when f.name like '%/%' then 'has a name with a slash'
        when octet_length(f.name) > 255 then 'has a name longer than 255 bytes'
        when f.cid !~ '^[A-Za-z0-9._@+-]{1,200}$'
            then 'has a cid that is not 1 to 200 letters, digits, ''.'', ''_'', ''-'', ''+'' '
                 'and ''@'''
        when f.cid is not null and not has_html then 'has a cid without html that could show it'
        when rtrim(f.base64, '=') ~ '[^A-Za-z0-9+/]' or length(rtrim(f.base64, '=')) % 4 = 1
             or (right(f.base64, 1) = '=' and (length(f.base64) % 4 <> 0
                                              or right(f.base64, 3) = '==='))
            then 'has content_base64 that is not Base64'
        else deferred.__mail_type_wrong(f.type, f.is_text) end;
end
$$;
comment on function deferred.__mail_file_wrong is
    'what is wrong with an attachment; has_html: the mail has HTML, which may show it; NULL: '
    'nothing';
grant execute on function deferred.__mail_file_wrong to deferred_producer;
