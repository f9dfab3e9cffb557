-- The form that W3C Trace Context gives version 00, which later versions begin with: version, trace
-- id, span id and flags. It goes into log lines and the environment of commands as it is, so
-- nothing else may be stored as one.
create or replace function deferred.__traceparent(traceparent text) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp
as $$
begin
    if traceparent collate "C" !~
        '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' then
        raise exception using errcode = '22023',
            message = format('option ''traceparent'' has the invalid value ''%s''',
                             left(traceparent, 200)),
            hint = 'use the form of W3C Trace Context in lower case: '
                   '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01; neither id is all '
                   'zeros';
    end if;
    return traceparent;
end
$$;
comment on function deferred.__traceparent is
    'the trace context, checked; an error says what is wrong';
grant execute on function deferred.__traceparent to deferred_producer, deferred_http;
