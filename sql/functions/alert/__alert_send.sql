-- Defers the jobs that report a problem. single: the message is about nothing else. Returns why no
-- mail is sent; NULL: one is, or nobody wants mail.
create or replace function deferred.__alert_send(p json, mail_to text[], cause text, name text,
                                                 text text, remedy text,
                                                 single boolean) returns text
language plpgsql
as $$
begin
    if p->>'hook' is not null then
        perform deferred.__alert_job(
            p->>'queue', 'deferred-alert',
            json_build_object('cause', cause, 'name', name, 'text', text, 'do', remedy,
                              'database', current_database(), 'at',
                              to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
            format('%s %s: %s', cause, name, text), (p->>'timeout_ms')::bigint, 2);
    end if;
    if mail_to = '{}' then
        return null;
    elsif name = 'send_mail' and single then
        return 'not sent by mail, because the problem is about mail';
    end if;
    perform deferred.__alert_job(
        p->>'queue', 'send_mail',
        json_build_object(
            'to', mail_to, 'subject', format('deferred: %s %s', cause, name), 'text',
            format(E'%s\n\ndo: %s\n\nDatabase %s; deferred alert --list prints what is open.\n',
                   text, remedy, current_database()),
            'headers', json_build_object('Auto-Submitted', 'auto-generated')),
        format('deferred: %s %s', cause, name), null, null);
    return null;
end
$$;
