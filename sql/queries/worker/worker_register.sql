-- worker_register: a run that has work to do makes itself known.
-- params: instance text, host text, pid int4, version text, queues text[], origin text,
--   server_pid int4, watch int4, cnt int4, runners int4, mode text
-- returns: id int8, catalog int8?, isolation text
-- $5 NULL: all queues. $6: as $2 of worker_offer.sql.
-- $7   process that serves this session, as the connection says. Behind a pooler it is another one.
-- $8   a random number. The session holds the advisory lock of that number until it ends.
-- $9   most attempts.
-- $10   0: it does not say.
-- $11   run, loop or listen.
-- Rows: one row: worker id, and the catalog reported for that host and origin within the hour
--   (NULL: none). The session has read committed transactions from then on, whatever the database
--   or the role has. A claim must see what was committed while it waited. Behind a pooler others
--   share the session: isolation is NULL, and session_isolation.sql sets it in each transaction.
-- Locks: the new row; advisory, for the session: (1145390673, $8). Index: primary key of
--   __deferred_offer.
insert into deferred.__deferred_worker (instance, host, pid, version, queues, watch, cnt, runners,
                                        mode)
select $1::text, $2::text, $3::int4, $4::text, $5::text[],
       case when $7::int4 = pg_backend_pid()
                then case when pg_try_advisory_lock(1145390673, $8::int4) then $8 end end,
       $9::int4, nullif($10::int4, 0), $11::text
returning id, (select o.catalog from deferred.__deferred_offer o
               where o.host = $2 and o.origin = $6::text and o.seen_at > now() - interval '1 hour'),
          case when $7 = pg_backend_pid() then set_config('default_transaction_isolation',
              'read committed', false) end as isolation
