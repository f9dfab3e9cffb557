-- An event is a parent whose end somebody declares. Each call stores a row and a note
-- (sql/functions/flow/__settle.sql). Nobody is locked, so an open transaction that sends an event
-- holds up no job and no other call. The function deferred.__event_of() says which jobs get it.
create or replace function deferred.send_event(name text, payload json default null,
                                               keep interval default '1 day',
                                               role name default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_actor name := deferred.__actor();
    v_owner name := coalesce($4, v_actor);
    v_now   timestamptz := clock_timestamp();
    v_keep  interval := coalesce($3, '1 day');
    v_id    bigint;
begin
    if (length($1) between 1 and 200) is not true then
        raise exception using errcode = '22023',
            message = format('event name ''%s'' is invalid', left($1, 200)),
            hint = 'a name has 1 to 200 characters';
    elsif v_keep < '0' or v_keep > '36525 days' then
        raise exception using errcode = '22003',
            message = format('event ''%s'': keep is out of range: %s', $1, v_keep),
            hint = 'use 0 to 36525 days; 0: the event counts only for jobs that wait by now';
    elsif octet_length($2::text) > 65536
        or (octet_length($2::text) > 512 and not deferred.__depth_ok($2)) then
        raise exception using errcode = '54000',
            message = format('payload of event ''%s'' has %s bytes, more than 65536, or nests '
                             'deeper than 512 levels', $1, octet_length($2::text)),
            hint = 'store the data elsewhere and pass a reference';
    end if;
    if (deferred.__may_touch(v_owner)
        or (select pg_has_role(a.oid, r.oid, 'member') from pg_roles r, pg_roles a
            where r.rolname = v_owner and a.rolname = v_actor)) is not true then
        raise exception using errcode = '42501',
            message = format('role ''%s'' may not send events to jobs of role ''%s''', v_actor,
                             v_owner),
            hint = format('send them as a member of that role: grant %I to %I', v_owner, v_actor);
    end if;
    insert into deferred.__deferred_event (owner, name, payload, sent_at, sent_by, kept_until,
                                           look_at)
    values (v_owner, $1, $2, v_now, v_actor, v_now + v_keep, v_now + v_keep)
    returning id into v_id;
    insert into deferred.__deferred_ended (id, what) values (v_id, 'e');
    -- Any worker processes the note. Of the jobs that wait, the first ones say who may be idle.
    if not deferred.__nobody_waits() then
        perform deferred.__wake(q.queue)
        from (select distinct h.queue
              from (select a.child from deferred.__deferred_awaited a
                    where a.owner = v_owner and a.name = $1 and a.sent is null
                    order by a.child limit 100) a
              join deferred.__deferred_hot h on h.id = a.child) q;
    end if;
end
$$;
comment on function deferred.send_event(text, json, interval, name) is
    'has jobs run that wait for the event: those that wait, and those deferred while it is kept';
grant execute on function deferred.send_event(text, json, interval, name) to deferred_producer;

-- With a payload that the caller has as jsonb, as of deferred.defer().
create or replace function deferred.send_event(name deferred.__function_name, payload jsonb,
                                               keep interval default '1 day',
                                               role name default null) returns void
language sql
as $$
    select deferred.send_event($1::pg_catalog.text, $2::pg_catalog.json, $3, $4)
$$;
comment on function deferred.send_event(deferred.__function_name, jsonb, interval, name) is
    'the same with jsonb';
grant execute on function deferred.send_event(deferred.__function_name, jsonb, interval,
                                              name) to deferred_producer;
