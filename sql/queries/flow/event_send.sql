-- event_send: send an event, and write down that a command did.
-- params: name text, payload json, keep_ms int8?, role text, who text
-- returns: ignored
-- $2 NULL: none. $3 NULL: a day. $4 NULL: the role that acts. $5 NULL: nothing is written down.
-- Rows: one row.
-- Locks: none but of what it adds. Index: __deferred_awaited_name
select deferred.send_event($1::text, $2::json, $3::int8 * interval '1 millisecond',
                           $4::text::name),
       case when $5::text is not null
            then deferred.__act_note($5, 'send', settings => json_build_object(
                     'event', left($1, 200), 'role', $4)) end
