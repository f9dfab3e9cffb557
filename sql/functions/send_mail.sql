-- A mail that cannot go out is told here, while the transaction can still do something about it, and not by a dead job later.
create or replace function deferred.send_mail("to" text[], subject text, text text default null, html text default null,
    "from" text default null, cc text[] default null, bcc text[] default null, reply_to text default null, headers json default null,
    attachments json default null, message_id text default null, opts json default null) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    if cardinality($1 || $6 || $7) is not distinct from 0 or num_nonnulls($1, $6, $7) = 0 then
        raise exception using errcode = '22023', message = 'no recipient: "to", cc and bcc are empty';
    end if;
    if num_nonnulls($3, $4) = 0 then
        raise exception using errcode = '22023', message = 'neither text nor html is given',
            hint = 'select deferred.send_mail(''ann@example.org'', ''subject'', ''text'')';
    end if;
    select f.field, f.address, deferred.__mail_address_wrong(f.address) as wrong into bad
    from (select 'to' as field, unnest($1) as address union all select 'from', $5 where $5 is not null
          union all select 'cc', unnest($6) union all select 'bcc', unnest($7)
          union all select 'reply_to', $8 where $8 is not null) f
    where deferred.__mail_address_wrong(f.address) is not null limit 1;
    if found then
        raise exception using errcode = '22023', message = format('%s: %s %s', bad.field, coalesce(quote_literal(left(bad.address, 200)), 'an address'), bad.wrong),
            hint = 'an address is ''a@b'' or ''Name <a@b>''; several are an array, one an element';
    end if;
    if $2 ~ '[\u0001-\u001f\u007f-\u009f]' then
        raise exception using errcode = '22023', message = 'subject: has a control character';
    end if;
    if $9 is not null and json_typeof($9) <> 'object' then
        raise exception using errcode = '22023', message = format('headers are a JSON %s, not an object', json_typeof($9)),
            hint = 'for example {"Auto-Submitted": "auto-generated"}';
    end if;
    if $9 is not null then
        select h.key, deferred.__mail_header_wrong(h.key, case when json_typeof(h.value) = 'string' then h.value #>> '{}' end) as wrong into bad
        from json_each($9) h
        where deferred.__mail_header_wrong(h.key, case when json_typeof(h.value) = 'string' then h.value #>> '{}' end) is not null limit 1;
        if found then
            raise exception using errcode = '22023', message = format('headers: "%s" %s', left(bad.key, 200), bad.wrong),
                hint = 'In-Reply-To, References, Auto-Submitted, Precedence, List-Unsubscribe and the like; others begin with X-';
        end if;
    end if;
    if $10 is not null and json_typeof($10) <> 'array' then
        raise exception using errcode = '22023', message = format('attachments are a JSON %s, not an array', json_typeof($10)),
            hint = 'for example [{"name": "a.csv", "content": "1;2"}]';
    end if;
    return deferred.defer('send_mail', json_strip_nulls(json_build_object('to', $1, 'subject', $2, 'text', $3, 'html', $4, 'from', $5,
        'cc', $6, 'bcc', $7, 'reply_to', $8, 'headers', $9, 'attachments', $10, 'message_id', $11)), $12);
end
$$;
comment on function deferred.send_mail(text[], text, text, text, text, text[], text[], text, json, json, text, json)
    is 'have a mail sent later by the function send_mail; returns the job id';
grant execute on function deferred.send_mail(text[], text, text, text, text, text[], text[], text, json, json, text, json) to deferred_producer;

create or replace function deferred.send_mail("to" text, subject text, text text default null, html text default null,
    "from" text default null, cc text[] default null, bcc text[] default null, reply_to text default null, headers json default null,
    attachments json default null, message_id text default null, opts json default null) returns bigint
language sql set search_path = pg_catalog, pg_temp
as $$
    select deferred.send_mail(case when $1 is not null then array[$1] end, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
$$;
comment on function deferred.send_mail(text, text, text, text, text, text[], text[], text, json, json, text, json)
    is 'the same for one recipient';
grant execute on function deferred.send_mail(text, text, text, text, text, text[], text[], text, json, json, text, json) to deferred_producer;
