-- 0002 jobs: what version 0.2.0 adds to the tables.
-- oldest: 1

set local role deferred_owner;

-- All tables that this file alters, in the order in which deferred.defer() uses them. In another
-- order a call of defer() and the migration would each wait for the other, and the server would
-- end the call.
lock table deferred.__deferred_queue, deferred.__deferred, deferred.__deferred_upkeep,
    deferred.__deferred_ended, deferred.__deferred_worker in access exclusive mode;

-- ---------------------------------------------------------------- keys

alter table deferred.__deferred add column key_until_ms bigint;
grant select (backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, key_until_ms)
    on deferred.__deferred to deferred_viewer;
comment on column deferred.__deferred.key_until_ms is
    'How long the job holds its key. NULL: until it has ended. 0: until its first attempt starts. '
    'Above 0: for that many milliseconds after its end.';

-- Keys that are not held exactly until the end of a job: deferred.__enqueue_key(). The row of a key
-- that is free stays until deferred.__keys_sweep() removes it.
create table deferred.__deferred_key (
    queue        text collate "C" not null,  -- Queue of the job.
    key          text collate "C" not null,  -- As key of __deferred_hot.
    job_id       bigint not null,  -- Job that holds the key, or held it last.
    key_until_ms bigint,  -- Copied from __deferred.
    -- Until when the key is held, once the job has ended; NULL: not stored yet.
    until        timestamptz,
    primary key (queue, key)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
grant select on deferred.__deferred_key to deferred_worker, deferred_viewer;

alter table deferred.__deferred_upkeep
    add column keys_at timestamptz not null default '-infinity',
    add column keys_page bigint not null default 0;
comment on column deferred.__deferred_upkeep.keys_at is
    'When rows of __deferred_key were last looked through: deferred.__keys_sweep().';
comment on column deferred.__deferred_upkeep.keys_page is
    'Page of __deferred_key from which on it goes on.';

-- ---------------------------------------------------------------- steps

-- Steps that jobs have saved while they ran. The next attempt gets them: job_parents.sql. The hot
-- row of a job with steps has `watched` not NULL, and params_bytes includes their bytes. They are
-- deleted with the success of the job, or with the job.
create table deferred.__deferred_step (
    job_id   bigint not null,  -- Id of the job.
    -- Name, as of functions.
    name     text collate "C" not null check (name ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    value    json not null,  -- Value, as the function saved it.
    bytes    integer not null check (bytes between 1 and 65536),  -- Bytes of the value.
    -- Place among the steps of the job, from 1.
    number   integer not null check (number between 1 and 1000),
    attempt  integer not null,  -- Number of the attempt that saved a step of that name first.
    resets   boolean not null,  -- True: that attempt does not count against max_attempts.
    -- When the value was saved (database clock).
    saved_at deferred.__moment not null default clock_timestamp(),
    primary key (job_id, name)
);
grant select on deferred.__deferred_step to deferred_worker, deferred_reader;
grant select (job_id, name, bytes, number, attempt, saved_at) on deferred.__deferred_step
    to deferred_viewer;
comment on column deferred.__deferred_hot.watched is
    'True: another job waits for it, and its end is noted in __deferred_ended. False: it has '
    'itself waited for others, or has steps. NULL: neither.';
comment on column deferred.__deferred_hot.params_bytes is
    'Bytes of its params and steps, for the claim: deferred.__job_bytes(); NULL: 1,024 or fewer.';

-- ---------------------------------------------------------------- events:
-- sql/functions/event/send_event.sql

-- Events that were sent. Each is a row, so that those who send the same name never wait for each
-- other.
create table deferred.__deferred_event (
    id         bigint generated always as identity primary key,  -- Number of the event.
    owner      name not null,  -- Role whose jobs can wait for it.
    name       text collate "C" not null,  -- Its name; it may have been sent before.
    payload    json,  -- Jobs that waited for it get this. NULL: nothing.
    -- When it was sent (database clock).
    sent_at    timestamptz not null default clock_timestamp(),
    sent_by    name not null,  -- Role that sent it.
    kept_until timestamptz not null,  -- It counts for jobs that are deferred before this time.
    look_at    timestamptz not null,  -- When housekeeping looks at the row.
    -- Transaction of the housekeeping that found kept_until in the past. A job that was deferred
    -- before kept_until is of an older one. NULL: not found yet.
    over_xid   xid8
) with (autovacuum_vacuum_cost_delay = 0);
create index __deferred_event_name on deferred.__deferred_event (owner, name, sent_at, id);
create index __deferred_event_look on deferred.__deferred_event (look_at);

-- Events that jobs wait for, or waited for. The row stays until the job is purged.
create table deferred.__deferred_awaited (
    child      bigint not null,  -- The job.
    -- Below 0: the event as a parent of the job, in __deferred_edge.
    parent     bigint not null check (parent < 0),
    owner      name not null,  -- Role that deferred the job.
    name       text collate "C" not null,  -- Name of the event.
    since      timestamptz not null,  -- Since when the job waits for it.
    until      timestamptz,  -- Time limit. NULL: none.
    -- At the time limit, c: the job is cancelled; f: it is dead; r: it runs.
    on_timeout "char" not null check (on_timeout in ('c', 'f', 'r')),
    -- The event that came: __deferred_event.id. 0: none came in time, or the job waits no more.
    -- NULL: the job waits.
    sent       bigint,
    primary key (child, parent)
) with (fillfactor = 80, autovacuum_vacuum_cost_delay = 0);
create index __deferred_awaited_name on deferred.__deferred_awaited (owner, name, child)
    where sent is null;
create index __deferred_awaited_until on deferred.__deferred_awaited (until)
    where sent is null and until is not null;
create index __deferred_awaited_sent on deferred.__deferred_awaited (sent) where sent > 0;

grant select (id, owner, name, sent_at, sent_by, kept_until) on deferred.__deferred_event
    to deferred_worker, deferred_viewer;
grant select on deferred.__deferred_awaited to deferred_worker, deferred_viewer;

comment on column deferred.__deferred_edge.parent is
    'Job it waits for. The parent is older, so cycles are impossible. Below 0: an event, see '
    '__deferred_awaited.';
alter table deferred.__deferred_ended drop constraint __deferred_ended_what_check,
    add constraint __deferred_ended_what_check
    check (what in ('o', 'f', 's', 'n', 'l', 'c', 'z', 'e'));
comment on column deferred.__deferred_ended.what is
    'How it ended, as __deferred_edge.what. Besides, l: a job to be looked at, which waits for '
    'jobs that were there before it. And c: a flow of which a job failed, so that the rest is '
    'cancelled. And z: a closed flow that may have ended. And e: an event that was sent.';
comment on column deferred.__deferred_ended.id is
    'Job it is about; of c and z: the flow; of e: the event.';
comment on column deferred.__deferred_action.verb is
    'Retry, run, cancel, pause, resume, set, clear, remove, defer, release, send, update, add or '
    'rotate.';

-- ---------------------------------------------------------------- edits:
-- sql/functions/edit/__update.sql

comment on table deferred.__deferred is
    'Calls as they were deferred. Rows are added and purged much later. A row changes only when '
    'deferred.update() changes the job, or the holder of a message replaces its params, and '
    'deferred.retry() locks it. The functions check what they store, and deferred.check_ledger() '
    'finds what got around them.';

-- ---------------------------------------------------------------- spool:
-- sql/functions/spool/__spool_some.sql

-- Calls that a host kept in its spool while it could not reach the server, and that are stored. A
-- row is stored in the transaction that stores the job.
create table deferred.__deferred_spooled (
    owner     name not null,  -- Role that stored it, so that no role can use up UUIDs of another.
    id        uuid not null,  -- UUID of the entry, its provisional id.
    job_id    bigint,  -- Id of the job. NULL: the queue was full, and drops what comes then.
    -- When it was stored (database clock). The row is deleted 31 days later.
    stored_at timestamptz not null default clock_timestamp(),
    primary key (owner, id)
) with (fillfactor = 80, autovacuum_vacuum_cost_delay = 0);
create index __deferred_spooled_stored on deferred.__deferred_spooled (stored_at);
grant select on deferred.__deferred_spooled to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- batches

-- ---------------------------------------------------------------- limits of keys

-- The arrays key_queues and key_hashes have one element for each key. The array key_at says which
-- of them a job of key_tids has. The array job_keys says the same of the jobs that were chosen,
-- where NULL means no key. In limits the keys come first. The kind of a limit is NULL while
-- somebody else has locked it.
--
-- If a job needs the long way, wide is true. Its key allows more than one job at once, or it has
-- expired, or it needs a lease of its own. The params of all jobs have that many bytes. If nothing
-- but keys limits the jobs, keyed is true. Then limit_tids has the limit of each key, in step with
-- key_hashes. A claim may take several jobs of a key. The array key_places has the place of each
-- job of key_tids among those of its key, from 1.
alter type deferred.__limited
    drop attribute key_jobs, drop attribute key_fns, drop attribute wanted, drop attribute hashes,
    add attribute key_tids tid[], add attribute key_at integer[], add attribute limit_tids tid[],
    add attribute job_keys integer[], add attribute wide boolean,
    add attribute keyed boolean, add attribute key_places integer[], add attribute bytes bigint;

-- ---------------------------------------------------------------- settings of queues

-- Settings of queues that have none of their own, by the beginning of their name.
create table deferred.__deferred_pattern (
    pattern    text collate "C" primary key,  -- Beginning of a queue name, and '*'.
    settings   jsonb not null,  -- Some of those that deferred.__queue_plain() lists.
    created_at timestamptz not null default clock_timestamp()  -- When it was first set.
);
grant select on deferred.__deferred_pattern to deferred_viewer, deferred_worker;

alter table deferred.__deferred_queue add column pattern text collate "C";
alter table deferred.__deferred_queue
    add column key_rate double precision check (key_rate between 1e-7 and 1e6),
    add column key_burst integer check (key_burst between 1 and 1000000);
comment on column deferred.__deferred_queue.key_rate is
    'attempts of each concurrency key that may start per second; NULL: any number';
comment on column deferred.__deferred_queue.key_burst is
    'attempts of a concurrency key that may start at once after a pause; NULL: 1';
alter table deferred.__deferred_queue
    add column age_ms bigint check (age_ms between 1000 and 31536000000);
comment on column deferred.__deferred_queue.age_ms is
    'span after which the priority of a waiting job rises by one, milliseconds; NULL: it stays';
comment on column deferred.__deferred_queue.pattern is
    'pattern that gives the queue its settings; NULL: they are its own, or the queue has none';

-- ---------------------------------------------------------------- tokens:
-- sql/functions/token/__token_add.sql

-- Tokens of programs that use the JSON API of deferred_http. The token itself is not stored.
create table deferred.__deferred_token (
    -- Name of the token. Its jobs belong to the role `token:NAME`.
    name        text collate "C" primary key check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,56}$'),
    -- SHA-256 of the token.
    sha256      bytea not null unique check (octet_length(sha256) = 32),
    old_sha256  bytea unique,  -- SHA-256 of the token before the last rotation.
    old_until   timestamptz,  -- Until when that token is valid too.
    -- Its rights.
    may         text[] collate "C" not null check (may <@ '{control,defer,read,work}'),
    -- Functions of the jobs that it may defer, work on, or change, each by its name or, as
    -- PREFIX.*, by how it begins. NULL: any.
    functions   text[] collate "C",
    queues      text[] collate "C",  -- Queues of those jobs, as functions. NULL: any.
    created_at  timestamptz not null default clock_timestamp(),  -- When it was added.
    created_by  name not null,  -- Role that added it.
    rotated_at  timestamptz,  -- When it was rotated last. NULL: never.
    expires_at  timestamptz  -- Until when it is valid. NULL: without end.
);
grant select (name, old_until, may, functions, queues, created_at, created_by, rotated_at,
              expires_at) on deferred.__deferred_token to deferred_viewer;
grant select (name, expires_at) on deferred.__deferred_token to deferred_worker;

-- ---------------------------------------------------------------- requests:
-- sql/functions/api/__api.sql

-- Answers of the JSON API to requests with an Idempotency-Key. An answer is stored in the
-- transaction of what the request does.
create table deferred.__deferred_idempotency (
    token      text collate "C" not null,  -- Name of the token of the request.
    key        text collate "C" not null check (key ~ '^[!-~]{1,255}$'),  -- Idempotency-Key.
    hash       bytea not null,  -- SHA-256 of the request: deferred.__api_hash().
    answer     text not null,  -- Body of the answer.
    -- Until when a repeated request gets it.
    kept_until timestamptz not null default clock_timestamp() + interval '24 hours',
    primary key (token, key)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
create index __deferred_idempotency_until on deferred.__deferred_idempotency (kept_until);

-- ---------------------------------------------------------------- workers by SQL:
-- sql/functions/work/claim_jobs.sql

alter table deferred.__deferred_worker drop constraint __deferred_worker_mode_check,
    add constraint __deferred_worker_mode_check check (mode in ('run', 'loop', 'listen', 'sql'));
comment on column deferred.__deferred_worker.mode is
    'By cron: run. A service that sleeps when nothing is ready: loop. One that is woken: listen. A '
    'program that calls deferred.claim_jobs(): sql.';

reset role;
