-- A mail that cannot go out is refused here, while the transaction can still do something about it,
-- and not by a dead job later. Only the worker knows what its config file says:
-- mail.attachment_dir, mail.from and mail.recipients_max.
create or replace function deferred.send_mail("to" text[], subject text, text text default null,
    html text default null, "from" text default null, cc text[] default null,
    bcc text[] default null, reply_to text default null, headers json default null,
    attachments json default null, message_id text default null, calendar text default null,
    opts json default null) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_id constant text := regexp_replace($11, '^<(.+)>$', E'\\1');
    v_method constant text := (regexp_match($12, E'\\nMETHOD:([^\\n]*)', 'i'))[1];
    bad record;
begin
    if cardinality($1 || $6 || $7) is not distinct from 0 or num_nonnulls($1, $6, $7) = 0 then
        raise exception using errcode = '22023',
            message = 'the recipient is missing: ''to'', cc and bcc are empty',
            hint = 'select deferred.send_mail(''ann@example.org'', ''subject'', ''text'')';
    end if;
    if cardinality($1 || $6 || $7) > 10000 then
        raise exception using errcode = '22023',
            message = 'the mail has more than 10000 recipients',
            hint = 'send several mails; the setting mail.recipients_max limits one mail';
    end if;
    if num_nonnulls($3, $4) = 0 then
        raise exception using errcode = '22023', message = 'text and html are both missing',
            hint = 'select deferred.send_mail(''ann@example.org'', ''subject'', ''text'')';
    end if;
    select f.field, f.address, deferred.__mail_address_wrong(f.address) as wrong into bad
    from (select 'to' as field, unnest($1) as address
          union all select 'from', $5 where $5 is not null
          union all select 'cc', unnest($6) union all select 'bcc', unnest($7)
          union all select 'reply_to', $8 where $8 is not null) f
    where deferred.__mail_address_wrong(f.address) is not null limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('%s: %s %s', bad.field,
                             coalesce('''' || left(bad.address, 200) || '''',
                                      'an address'), bad.wrong),
            hint = 'write ann@example.org or Ann <ann@example.org>; pass several addresses as an '
                   'array';
    end if;
    if substring($8 from '[^<]*$') ~ E'[^\\u0001-\\u007f]' then
        raise exception using errcode = '22023', message = format(
            'reply_to: ''%s'' has characters outside of ASCII, and some readers could not answer',
            left($8, 200)), hint = 'give an address in ASCII';
    end if;
    if $2 ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' then
        raise exception using errcode = '22023',
            message = 'subject: has a control character',
            hint = 'write the subject in one line';
    end if;
    perform deferred.__mail_headers_check($9);
    perform deferred.__mail_files_check($10, $4 is not null);
    if length(v_id) > 250 or v_id !~ '^[^@]+@[^@]+$'
       or v_id ~ E'[^\\u0021-\\u007e]|[]<>()[,;:\\\\"]' then
        raise exception using errcode = '22023',
            message = format('message_id: ''%s'' is not LEFT@RIGHT of at most 250 ASCII characters',
                             left($11, 250)), hint = 'for example order-17@shop.example';
    end if;
    if $12 is not null and ($12 !~* E'^BEGIN:VCALENDAR\\r?\\n'
                            or coalesce(v_method, '') !~ E'^[A-Za-z0-9-]{1,20}\\r?$') then
        raise exception using errcode = '22023',
            message = 'calendar: ' || case
                when $12 !~* E'^BEGIN:VCALENDAR\\r?\\n'
                    then 'does not begin with the line BEGIN:VCALENDAR'
                when v_method is null then 'has no line METHOD'
                else 'has a METHOD that is not a word of at most 20 letters' end,
            hint = 'begin with BEGIN:VCALENDAR, and have a line such as METHOD:REQUEST';
    end if;
    return deferred.defer('send_mail', json_strip_nulls(json_build_object(
        'to', $1, 'subject', $2, 'text', $3, 'html', $4, 'from', $5, 'cc', $6, 'bcc', $7,
        'reply_to', $8, 'headers', $9, 'attachments', $10, 'message_id', $11, 'calendar', $12)),
        $13);
end
$$;
comment on function deferred.send_mail(text[], text, text, text, text, text[], text[], text, json,
                                       json, text, text, json) is
    'have a mail sent later by the function send_mail; returns the job id';
grant execute on function deferred.send_mail(text[], text, text, text, text, text[], text[], text,
                                             json, json, text, text, json) to deferred_producer;

create or replace function deferred.send_mail("to" text, subject text, text text default null,
    html text default null, "from" text default null, cc text[] default null,
    bcc text[] default null, reply_to text default null, headers json default null,
    attachments json default null, message_id text default null, calendar text default null,
    opts json default null) returns bigint
language sql set search_path = pg_catalog, pg_temp
as $$
    select deferred.send_mail(case when $1 is not null then array[$1] end, $2, $3, $4, $5, $6, $7,
                              $8, $9, $10, $11, $12, $13)
$$;
comment on function deferred.send_mail(text, text, text, text, text, text[], text[], text, json,
                                       json, text, text, json) is
    'the same for one recipient';
grant execute on function deferred.send_mail(text, text, text, text, text, text[], text[], text,
                                             json, json, text, text, json) to deferred_producer;
