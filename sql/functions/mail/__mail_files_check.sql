create or replace function deferred.__mail_files_check(files json, has_html boolean) returns void
language plpgsql immutable strict set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    perform deferred.__json_check('attachments', files);
    if json_typeof(files) <> 'array' then
        raise exception using errcode = '22023',
            message = format('attachments must be a JSON array, but a JSON %s was given',
                             json_typeof(files)),
            hint = 'for example [{"name": "a.csv", "content": "1;2"}]';
    end if;
    select f.nth, f.wrong into bad
    from (select e.nth, coalesce(deferred.__mail_file_wrong(e.file, has_html),
              case when e.file ->> 'cid' in (
                  select o.value ->> 'cid'
                  from json_array_elements(files) with ordinality o(value, nth)
                  where o.nth < e.nth and json_typeof(o.value) = 'object')
              then 'has a cid that is there twice' end) as wrong
          from json_array_elements(files) with ordinality e(file, nth)) f
    where f.wrong is not null limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('attachment %s %s', bad.nth, bad.wrong),
            hint = 'deferred_functions(7) lists the members of an attachment';
    end if;
end
$$;
comment on function deferred.__mail_files_check is
    'part of deferred.send_mail(): refuses attachments that a mail may not have';
grant execute on function deferred.__mail_files_check to deferred_producer;
