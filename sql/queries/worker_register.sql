-- worker_register: a run that has work to do makes itself known.
-- $1 instance, text   $2 host, text   $3 pid, int4   $4 version, text
-- $5 queues served, text[]; NULL: all
-- returns one row: worker id (int8)
-- locks: the new row
insert into deferred.__deferred_worker (instance, host, pid, version, queues)
values ($1::text, $2::text, $3::int4, $4::text, $5::text[])
returning id
