-- Crontab lines and services that no longer come while others do: deferred.__absent().
create or replace function deferred.__alert_absent() returns void
language sql
as $$
    select deferred.__alert_found(
        'absent', a.instance,
        format('%s with pidfile %s on host %s has stopped while others still run: it was seen %s '
               'ago%s',
               case when a.service then 'the service' else 'check_deferred' end, a.pidfile, a.host,
               deferred.__age(a.seen_s),
               case when not a.service
                    then format(', and used to start every %s', deferred.__age(a.every_s))
               end),
        format('deferred doctor on host %s; look at the crontab line or the unit, and its log',
               a.host))
    from deferred.__absent() a
$$;
