-- Crontab lines and services that no longer come while others do: deferred.__absent().
create or replace function deferred.__alert_absent() returns void
language sql
as $$
    select deferred.__alert_found(
        'absent', a.instance,
        format('%s with pidfile %s on host %s is missed while others come: it was seen %s ago%s',
               case when a.service then 'the service' else 'check_deferred' end, a.pidfile, a.host,
               make_interval(secs => a.seen_s),
               case when not a.service
                    then format(', and used to come every %s', make_interval(secs => a.every_s))
               end),
        format('deferred doctor, on host %s: cron''s line or the unit, and the log it writes',
               a.host))
    from deferred.__absent() a
$$;
