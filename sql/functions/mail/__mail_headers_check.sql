create or replace function deferred.__mail_headers_check(headers json) returns void
language plpgsql immutable strict set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    perform deferred.__json_check('headers', headers);
    if json_typeof(headers) <> 'object' then
        raise exception using errcode = '22023',
            message = format('headers must be a JSON object, but a JSON %s was given',
                             json_typeof(headers)),
            hint = 'for example {"Auto-Submitted": "auto-generated"}';
    end if;
    select h.key, h.wrong into bad
    from (select e.key, case
              when e.nth > 50 then 'is one more than the 50 that a mail may have'
              when exists (select from json_object_keys(headers) k
                           where lower(k) = lower(e.key) offset 1) then 'is there twice'
              else deferred.__mail_header_wrong(e.key,
                  case when json_typeof(e.value) = 'string' then e.value #>> '{}' end) end as wrong
          from json_each(headers) with ordinality e(key, value, nth)) h
    where h.wrong is not null limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('headers: ''%s'' %s', left(bad.key, 200), bad.wrong),
            hint = 'use In-Reply-To, References, Auto-Submitted, Precedence, List-Unsubscribe, '
                   'or a header that begins with X-';
    end if;
end
$$;
comment on function deferred.__mail_headers_check is
    'part of deferred.send_mail(): refuses headers that a mail may not have';
grant execute on function deferred.__mail_headers_check to deferred_producer;
