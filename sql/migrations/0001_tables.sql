-- 0001 tables: tables, who may read and write them. The functions in sql/functions use them.
--
-- The words used here (job, hot, attempt, claim, receipt, lease, dead) are defined in deferred.3
-- and drawn as a state machine in lib/base/job.h.

-- The roles are there: sql/queries/admin/admin_migrate_roles.sql. A migrator who is not a superuser
-- must be a member of deferred_owner to hand objects over. A role that may not grant that needs an
-- administrator to have granted it.
do $member$
begin
    if not (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
        execute pg_catalog.format('grant deferred_owner to %I', current_user);
    end if;
exception when insufficient_privilege then
    if not pg_catalog.pg_has_role('deferred_owner', 'member') then
        raise;
    end if;
end
$member$;

create schema deferred authorization deferred_owner;
comment on schema deferred is 'jobs deferred by applications and run by check_deferred';

set local role deferred_owner;

-- A function is nobody's until it is granted.
alter default privileges revoke execute on functions from public;

-- No type of strings that PostgreSQL prefers, as text is: so a call with literals is none of what
-- takes this one.
create domain deferred.__function_name as text;
comment on domain deferred.__function_name is
    'the function''s name where deferred.defer() takes jsonb';

-- Whatever a worker's login writes, nothing that reads it fails. Not a CHECK of the tables, whose
-- text PostgreSQL would read again for each claim.
create domain deferred.__moment as timestamptz
    check (value between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59+00');
comment on domain deferred.__moment is 'a time that can be subtracted from another one';

-- ---------------------------------------------------------------- schema version

-- Schema steps applied, one row each.
create table deferred.__deferred_migration (
    version    integer primary key,  -- Number of the step; the highest is the schema version.
    name       text not null,  -- Name of the step, from its file name.
    -- Programs that bring this schema version, or a later one, work with the schema after this
    -- step; NULL: only programs that bring this step.
    oldest     integer,
    -- When it was applied (database clock).
    applied_at timestamptz not null default clock_timestamp()
);

-- Functions and views, as `deferred migrate` applied them last.
create table deferred.__deferred_source (
    name       text collate "C" primary key,  -- File below sql/ it was made from, without .sql.
    -- SHA-256 of that file, hexadecimal. If the program's differs, migrate applies the file again.
    checksum   text not null,
    -- When it was applied (database clock).
    applied_at timestamptz not null default clock_timestamp()
);

-- ---------------------------------------------------------------- queues

-- Queues and their settings; a queue is added by the first job deferred to it.
create table deferred.__deferred_queue (
    -- Name of the queue.
    name                  text collate "C" primary key
                          check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'),
    paused                boolean not null default false,  -- True: nothing is claimed from it.
    -- Largest params accepted, in bytes.
    params_max_bytes      integer not null default 1048576 check (params_max_bytes > 0),
    created_at            timestamptz not null default clock_timestamp(),  -- When it was added.
    -- Length of a lease, milliseconds; NULL: what the worker says.
    visibility_timeout_ms bigint check (visibility_timeout_ms between 1000 and 86400000),
    -- A job deferred without an expiry expires after that, milliseconds; NULL: never.
    ttl_ms                bigint check (ttl_ms between 1 and 3155760000000),
    -- Of jobs that say nothing; NULL: what the function or the worker says.
    max_attempts          integer check (max_attempts > 0),
    -- Of jobs that say nothing, milliseconds; NULL: what the worker says.
    backoff_floor_ms      bigint check (backoff_floor_ms between 1 and 3155760000000),
    -- Of jobs that say nothing, milliseconds; NULL: what the worker says.
    backoff_ceiling_ms    bigint check (backoff_ceiling_ms between 1 and 3155760000000),
    -- Of jobs that say nothing; NULL: what the worker says.
    backoff_exponent      double precision check (backoff_exponent between 1 and 100),
    -- Attempts at once, all workers together; NULL: no limit.
    max_running           integer check (max_running > 0),
    -- Attempts a second, all workers together; NULL: no limit.
    rate                  double precision check (rate between 1e-7 and 1e6),
    -- Attempts that may start at once after a pause, where there is a rate; NULL: 1.
    burst                 integer check (burst between 1 and 1000000),
    -- Hot jobs it holds, each deferral counts that far; NULL: no limit.
    max_length            integer check (max_length > 0),
    -- A deferral to a full queue fails (error), or drops the new job without a word.
    on_full               text collate "C" not null default 'error' check (on_full in ('error',
        'drop')),
    -- Function that a message deferred without one becomes a call of; NULL: it stays a message.
    fn                    text collate "C" check (fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    -- For applications; the HTTP front shows fn and max_dequeue with it.
    metadata              json,
    -- Share of the claims of a worker that serves several queues.
    weight                double precision not null default 1 check (weight between 0.001 and 1000),
    -- When it was removed. The row stays, so that a job deferred at the same time is not lost. The
    -- next deferral brings the queue back.
    removed_at            timestamptz,
    -- A message taken this many times goes to the queue NAME-poison instead of being taken again.
    -- NULL: no limit.
    max_dequeue           integer check (max_dequeue between 1 and 1000),
    acl                   json,  -- Stored access policies of the HTTP front.
    -- Jobs up to this id are being cleared, because the queue was removed with jobs in it; NULL:
    -- none are.
    clearing_to           bigint,
    -- Role that added it by deferring to it, or account: and the account of the HTTP front. NULL:
    -- an administrator, who has no quota.
    created_by            text collate "C",
    -- While it is paused: when that was done (database clock); NULL: not known.
    paused_at             timestamptz,
    -- While it is paused: the role that did so, or who it was as the page knew them; NULL: not
    -- known.
    paused_by             text,
    -- While it is paused: when the pause ends (database clock); NULL: when somebody resumes it.
    paused_until          timestamptz check (isfinite(paused_until)),
    -- True: no setting is about a job without options that is deferred to it, unless its params are
    -- large.
    simple                boolean not null generated always as
                          (num_nonnulls(ttl_ms, max_length, max_running, rate, removed_at) = 0
                           and params_max_bytes >= 512) stored
);

create index __deferred_queue_paused_until on deferred.__deferred_queue (paused_until)
    where paused_until is not null;
create index __deferred_queue_created_by on deferred.__deferred_queue (created_by)
    where created_by is not null;

insert into deferred.__deferred_queue (name) values ('default');

-- Queues in which some hot job may be marked as limited, one row or a few each, which stay. No
-- unique index: two transactions that defer the first such jobs do not wait for each other.
create table deferred.__deferred_limited (
    queue text collate "C" not null  -- Name of the queue.
);
create index __deferred_limited_queue on deferred.__deferred_limited (queue);

-- How many queues and schedules may be there that somebody added.
create table deferred.__deferred_quota (
    -- Role, or account: and an account of the HTTP front; *: each that has no row.
    creator text collate "C" primary key,
    queues  integer not null check (queues >= 0),  -- Queues at a time.
    -- Schedules at a time; of roles.
    schedules integer not null default 1000 check (schedules >= 0)
);

insert into deferred.__deferred_quota (creator, queues) values ('*', 1000);

-- Roles and accounts that have added queues, from about a tenth of their quota on. A row is locked
-- to add more.
create table deferred.__deferred_creator (
    name text collate "C" primary key  -- As creator of __deferred_quota.
);

-- ---------------------------------------------------------------- who may defer what

-- Optional limits for producers: a role named here may defer only what its rows allow; a role not
-- named may defer anything.
create table deferred.__deferred_grant (
    -- Login role, or role taken by SET ROLE; the rows of both count, so that SET ROLE does not lift
    -- a limit.
    role  name not null,
    queue text collate "C",  -- Queue allowed; NULL: any.
    fn    text collate "C",  -- Function allowed; NULL: any.
    unique nulls not distinct (role, queue, fn)
);

-- The answer to one question of deferred.defer(), see sql/functions/admin/__restrict.sql.
create sequence deferred.__deferred_unrestricted;
select pg_catalog.setval('deferred.__deferred_unrestricted', 1);
comment on sequence deferred.__deferred_unrestricted is
    '1: no row is in __deferred_grant and __deferred_function; anything else: there may be some';

-- ---------------------------------------------------------------- jobs

create sequence deferred.__deferred_id_seq as bigint;

-- Calls as they were deferred. Rows are added and purged much later. A row changes only when the
-- holder of a message replaces its params, and deferred.retry() locks it. The two tables a defer()
-- writes have no CHECK constraints. PostgreSQL would parse them for every statement, which costs a
-- single insert 50 us, more than the two rows themselves. The functions check what they store, and
-- deferred.check_ledger() finds what got around them.
create table deferred.__deferred (
    id                  bigint not null,  -- Job id.
    -- When it was deferred (database clock).
    created_at          timestamptz not null default clock_timestamp(),
    priority            smallint not null default 0,  -- Larger is taken earlier.
    queue               text collate "C" not null,  -- Queue it was deferred to.
    -- Function to call, 1 to 127 characters; NULL: a plain message for a consumer.
    fn                  text collate "C",
    params              json not null,  -- Argument of the call, kept byte for byte.
    -- Login role, or role taken by SET ROLE, that deferred it.
    created_by          text collate "C" not null default session_user,
    run_at              timestamptz,  -- Not to be run before; NULL: at once.
    expires_at          timestamptz,  -- Not to be started after; NULL: never expires.
    -- Limit of one attempt, milliseconds; NULL: default of the function or the worker.
    timeout_ms          bigint,
    -- Delay after the first failed attempt, milliseconds; NULL: default of the worker.
    backoff_floor_ms    bigint,
    backoff_ceiling_ms  bigint,  -- Longest delay, milliseconds; NULL: default of the worker.
    -- Factor from one delay to the next, 1 to 100; NULL: default of the worker.
    backoff_exponent    double precision,
    -- Moment that the rule of its schedule names, or when the schedule was run by hand; NULL: no
    -- schedule made it.
    tick                timestamptz,
    previous_tick       timestamptz,  -- Tick before that which became a job; NULL: none did.
    -- Attempts before the job is dead; NULL: default of the function or the worker.
    max_attempts        integer,
    -- How many, 1 to 10000. NULL: 1, and then strictly one after the other in the order of their
    -- ids.
    concurrency         integer,
    label               text,  -- Text for people, at most 1000 characters.
    -- At most one hot job of a queue that the same role deferred has this key. 1 to 1000
    -- characters, at most 2500 bytes.
    key                 text collate "C",
    -- Limits how many hot jobs of the queue with this key, deferred by the same role, run at once.
    -- 1 to 1000 characters.
    concurrency_key     text collate "C",
    -- Name of the rule that made it; NULL: somebody deferred it.
    rule                text collate "C",
    -- Words to find it by, each once: 1 to 32 of 1 to 100 characters; NULL: none.
    tags                text[] collate "C",
    -- W3C trace context that it was deferred in, 55 characters; NULL: none was given.
    traceparent         text collate "C",
    primary key (id)
) partition by range (id);

-- An insert of a job without tags skips this index. There is no list of pending entries: each
-- search would read it, and a producer would have to sort it when it is full.
create index __deferred_tags on deferred.__deferred using gin (tags) with (fastupdate = off)
    where tags is not null;
grant select (id, tags) on deferred.__deferred to deferred_viewer;

-- The net: a row that no partition takes lands here and is moved by deferred.maintain().
create table deferred.__deferred_default partition of deferred.__deferred default;

-- Jobs still to be run; the row goes when there is nothing more to do.
create table deferred.__deferred_hot (
    id              bigint not null primary key,  -- Job id, as in __deferred.
    -- Arrival position: the transaction that made the job ready, the first or the next time. A
    -- lease made before it does not hold the job.
    xid             xid8 not null default pg_current_xact_id(),
    -- Ready since. While delayed it equals due_at. Of a message that is taken: the end of the
    -- lease.
    visible_at      timestamptz not null,
    -- Attempts that have ended, of a message those in progress included.
    attempt         integer not null default 0,
    priority        smallint not null default 0,  -- Copied from __deferred.
    -- True: claimed by deferred.__claim_limited() only.
    limited         boolean not null default false,
    bounded         boolean not null default false,  -- True: counts for max_length of its queue.
    -- True: no worker has its function, and no claim looks at it until a worker reports the
    -- function: deferred.__offer().
    unknown         boolean not null default false,
    queue           text collate "C" not null,  -- Copied from __deferred.
    fn              text collate "C",  -- Copied from __deferred.
    -- Delayed until, for a message also hidden until; NULL: ready or claimed.
    due_at          timestamptz,
    -- Of a message: token of the consumer that took it. Of a limited call that is claimed: that of
    -- its lease. Else NULL.
    receipt         bigint,
    worker          bigint,  -- Of a limited call that is claimed: worker that holds it.
    started_at      timestamptz,  -- When a message was taken.
    expires_at      timestamptz,  -- Copied from __deferred.
    -- Token that a message was put with; good while it was never taken (attempt 0, no receipt).
    put_receipt     bigint,
    -- Attempts that do not count against the limit: those before the last retry by hand, and
    -- interrupted ones. NULL: none.
    attempt_base    integer,
    concurrency     integer,  -- Copied from __deferred.
    -- Copied from __deferred, for the claim; NULL: as its queue or the worker has it.
    max_attempts    integer,
    -- Bytes of its params, for the claim: deferred.__params_bytes(); NULL: 1,024 or fewer.
    params_bytes    integer,
    -- True: another job waits for it, and its end is noted in __deferred_ended. False: it has
    -- itself waited for others. NULL: neither.
    watched         boolean,
    -- True: it was in a batch whose worker died, and may be the reason. It is claimed as a single
    -- job until an attempt has ended. NULL: false.
    suspect         boolean,
    -- Key and created_by of __deferred in one: deferred.__own_key(); no two roles meet.
    key             text collate "C",
    concurrency_key text collate "C"  -- As key, of concurrency_key.
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- The lanes: sql/functions/claim/__claim.sql.
create index __deferred_hot_ready on deferred.__deferred_hot (queue, priority, xid, id)
    where due_at is null and not limited and fn is not null;
create index __deferred_hot_delayed on deferred.__deferred_hot (due_at)
    where due_at is not null and fn is not null;
-- It also counts the jobs of a queue with a max_length. A further index would cost each insert half
-- as much again, even if the row is not in it.
create unique index __deferred_hot_key on deferred.__deferred_hot (queue, key)
    where key is not null or bounded;
-- One lane for each queue and function: no claim walks over jobs of a function that is at its
-- limit.
-- Jobs of unknown functions lie behind all others, so that no claim walks over their names.
create index __deferred_hot_limited on deferred.__deferred_hot (unknown, queue, fn, priority desc,
    id)
    where limited and due_at is null and concurrency_key is null;
-- One lane for each key, in the order of ids: a job waiting for a retry keeps its place. By a hash
-- of the key, so that a search can begin at a random one. Jobs deferred with a delay come when they
-- are due: no claim walks over them.
create index __deferred_hot_concurrency on deferred.__deferred_hot (queue,
    hashtextextended(concurrency_key, 0), id)
    where concurrency_key is not null and (due_at is null or attempt > coalesce(attempt_base, 0));
create index __deferred_hot_message on deferred.__deferred_hot (queue, due_at nulls first,
    priority desc, xid, id) where fn is null;

-- One row an attempt; rows are added and, long after, purged, never changed.
create table deferred.__deferred_log (
    job_id      bigint not null,  -- Id of the job.
    -- End of the attempt (database clock).
    finished_at timestamptz not null default clock_timestamp(),
    started_at  timestamptz,  -- Start of the attempt (database clock).
    worker      bigint,  -- Worker that made the attempt: __deferred_worker.id; NULL: a consumer.
    -- Receipt of the claim, by which a worker that lost the answer finds its own row.
    receipt     bigint,
    -- Number of the attempt from 1; 0: the job ended while nobody ran it.
    attempt     integer not null,
    -- From ready to started, microseconds; this and the four that follow are exact below
    -- 16,777,216, above to seven digits.
    wait_us     real,
    run_us      real,  -- From started to finished, microseconds.
    user_us     real,  -- CPU time in user mode, microseconds.
    sys_us      real,  -- CPU time in the kernel, microseconds.
    max_rss_kb  real,  -- Largest resident memory of the process so far, KiB.
    final       boolean not null,  -- True: the job left __deferred_hot with this row.
    -- How the attempt ended.
    outcome     text collate "C" not null check (outcome in
                ('ok', 'failed', 'crashed', 'timeout', 'interrupted', 'superseded', 'lost',
                 'cancelled', 'expired', 'snoozed')),
    plugin      text,  -- Plugin, version and build that ran it.
    exit_code   integer,  -- Exit status, where a process ended by itself.
    signal      integer,  -- Signal that ended the process.
    error       text,  -- Error text, for people.
    result      text  -- Text handed back by the function, at most 8 KiB.
) partition by range (finished_at);

create index __deferred_log_job on deferred.__deferred_log (job_id);
-- Jobs that ended without success, newest first, for people; the many that end well never touch it.
create index __deferred_log_ended on deferred.__deferred_log (finished_at)
    where final and outcome <> 'ok';
-- By time, for folding: it costs a row nothing that could be measured. Freed pages are filled
-- again, so the newest rows do not lie at the end.
create index __deferred_log_finished on deferred.__deferred_log
    using brin (finished_at) with (pages_per_range = 32);
create table deferred.__deferred_log_default partition of deferred.__deferred_log default;

-- Runs of check_deferred that had work, one row each.
create table deferred.__deferred_worker (
    id         bigint generated always as identity primary key,  -- Worker id.
    -- Host, pidfile, its device and inode, boot: two runs of one instance never overlap.
    instance   text not null,
    host       text not null,  -- Host name.
    pid        integer not null,  -- Process id on that host.
    version    text not null,  -- Version of the program.
    started_at deferred.__moment not null default clock_timestamp(),  -- When it registered.
    -- When it started, ended, or reported last that it lives. A service does so every 30 s.
    seen_at    deferred.__moment not null default clock_timestamp(),
    ended_at   deferred.__moment,  -- When it ended, or was found dead; NULL: taken to be alive.
    queues     text[],  -- Queues it serves; NULL: all.
    -- Its session holds the advisory lock (1145390673, watch), which shows others that it lives.
    -- NULL: it holds none, behind a pooler.
    watch      integer,
    -- Most attempts it makes, as it was when it registered. 0: until nothing is ready, or for ever.
    cnt        integer,
    -- Child processes that run functions, at most; as it was when it registered.
    runners    integer,
    -- By cron: run. A service that sleeps when nothing is ready: loop. One that is woken: listen.
    mode       text check (mode in ('run', 'loop', 'listen')),
    -- Role by whose rights it claims; a worker cannot set it.
    role       name not null default current_user,
    -- One that seems to live for ever would hide that no worker does.
    check (greatest(started_at, seen_at, ended_at) < clock_timestamp() + interval '1 day')
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
create index __deferred_worker_alive on deferred.__deferred_worker (instance)
    where ended_at is null;

-- Functions that workers have: a row for each host and plugin folder. A run that had work reports
-- them if they changed or the row is an hour old. deferred.maintain() deletes old rows.
create table deferred.__deferred_offer (
    host         text not null,  -- Host name.
    origin       text not null,  -- Plugin folder, and config file if that declares commands.
    catalog      bigint not null,  -- Hash of all that follows seen_at.
    -- When a worker said so last (database clock).
    seen_at      deferred.__moment not null default clock_timestamp(),
    fn           text[] collate "C" not null,  -- Names, the qualified ones and aliases included.
    -- In step with fn: name, version and build of the plugin; command: declared in the config file.
    plugin       text[] not null,
    -- In step with fn: limit of an attempt the function asks for, milliseconds; 0: none.
    timeout_ms   bigint[] not null,
    -- In step with fn: attempts the function asks for. 0: none given. -1: the function is refused,
    -- and plugin is the reason.
    max_attempts integer[] not null,
    primary key (host, origin)
);
grant select on deferred.__deferred_offer to deferred_worker;
grant select on deferred.__deferred_offer to deferred_viewer;

-- ---------------------------------------------------------------- claims: how they work stands in
-- sql/functions/claim/__claim.sql

-- Cursors: how far the ready jobs of a lane have been handed out. The row with the highest seq of a
-- lane counts. The claim that moves it locks it.
create table deferred.__deferred_cursor (
    queue    text collate "C" not null,  -- Queue of the lane.
    priority smallint not null,  -- Priority of the lane.
    -- Number of the cursor: a claim adds the next one and deletes the one before.
    seq      bigint not null,
    done     pg_snapshot not null,  -- Jobs visible in this snapshot have been handed out.
    -- Jobs visible in this one, and not in done, are being handed out.
    cur      pg_snapshot not null,
    xid      xid8,  -- In the order of (xid, id), up to there. NULL: all of it has been.
    id       bigint not null,  -- See xid.
    -- Jobs that were skipped, which the next claims hand out first. A job whose row has another xid
    -- by now is not one of them.
    rest_xid xid8[] not null,
    rest_id  bigint[] not null,  -- Their ids, in step with rest_xid.
    primary key (queue, priority, seq)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- A lane that a claim asks, in one of its rounds.
create type deferred.__lane as (
    queue    text,
    priority integer,
    share    double precision,  -- Of the jobs that are still wanted then. 1: all.
    round    integer
);

-- A lane under the lock of a claim: its cursor, the window that was read, the jobs chosen.
create type deferred.__window as (
    queue         text,
    priority      integer,
    -- The cursor, as in __deferred_cursor. seq NULL: another claim has locked it.
    seq           bigint,
    done          pg_snapshot,
    cur           pg_snapshot,
    xid           xid8,
    id            bigint,
    rest_xid      xid8[],
    rest_id       bigint[],
    want          integer,  -- Jobs still wanted from the lane.
    used          bigint,  -- Bytes of params that the claim has taken.
    singles_left  integer,  -- Jobs with a lease of their own that the claim may still take.
    spare         integer,  -- Jobs that the claim may still set aside.
    ids           bigint[],  -- Jobs of the window, in order. The next seven are in step with it.
    xids          xid8[],
    tids          tid[],
    attempts      integer[],
    attempt_bases integer[],
    ready_since   timestamptz[],
    bytes         integer[],
    -- Sum of 1: may be locked; 2: to be set aside; 4: expired; 8: gets a lease of its own. Plus 16:
    -- may have waited for others.
    flags         integer[],
    flagged       integer,  -- All flags together.
    first         bigint,  -- Lowest id.
    last          bigint,  -- Highest id.
    size          bigint,  -- Bytes of params, of the window, then of the jobs taken.
    found         integer,  -- Jobs of the window.
    again         integer,  -- How many of them, the first, were left before.
    used_up       boolean,  -- cur holds no others.
    fresh         boolean,  -- This claim has taken cur.
    idle          boolean,  -- No job was found, and the cursor need not move.
    moved         boolean,  -- The cursor is to be stored.
    picks         integer[],  -- Positions in ids of the jobs that are taken.
    shared        bigint[],  -- Ids of those that share a lease. NULL: none.
    low           bigint,  -- The lowest of these.
    high          bigint,  -- The highest of these.
    singles       integer,  -- Jobs taken with a lease of their own.
    cut           boolean,  -- Jobs were left for their params, or beyond singles_left.
    -- Jobs that were set aside or have expired, and locked jobs that were not left before.
    aside         integer,
    receipt       bigint,  -- Of the shared lease.
    -- In step with picks: receipt of the lease of its own. NULL: it has none.
    receipts      bigint[]
);

-- A job that was claimed. The last row has no id, and the columns from busy on: see
-- sql/queries/claim/job_claim.sql.
create type deferred.__claimed as (
    id                 bigint,
    receipt            bigint,
    attempt            integer,
    attempt_base       integer,
    max_attempts       integer,
    timeout_ms         bigint,
    backoff_floor_ms   bigint,
    backoff_ceiling_ms bigint,
    backoff_exponent   double precision,
    created_at         timestamptz,
    ready_since        timestamptz,
    fn                 text,
    label              text,
    params             json,
    queue              text,
    priority           integer,
    lease_ms           bigint,
    alone              boolean,
    tick               timestamptz,
    previous_tick      timestamptz,
    traceparent        text,
    parents            boolean,
    tid                tid,
    claimed_at         timestamptz,
    busy               boolean,
    cut                boolean,
    limits             boolean,
    more               boolean,
    look_us            bigint,
    waiting            bigint,
    round              text
);
-- Calls that workers hold, a batch a row; a job is held while its hot row is there and has an xid
-- visible in snap.
create table deferred.__deferred_lease (
    queue      text collate "C" not null,  -- Queue of the jobs.
    worker     bigint not null,  -- Worker that holds them.
    receipt    bigint not null,  -- By which results are accepted; random.
    ids        bigint[] not null,  -- The jobs.
    span       int8range not null,  -- From the lowest to the highest of them.
    -- Snapshot in which they were ready. A job that was made ready again since is not held any
    -- more.
    snap       pg_snapshot not null,
    -- True: the job has begun if this row is there, so that losing the lease is an attempt.
    alone      boolean not null,
    claimed_at deferred.__moment not null default now(),  -- When they were claimed.
    expires_at deferred.__moment not null  -- End of the lease: others may take them then.
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
-- To compress the ids of 500 jobs takes 5 million instructions, a tenth of what the server does for
-- these jobs. A batch is read by few, and not for long.
alter table deferred.__deferred_lease alter column ids set storage external;
create index __deferred_lease_receipt on deferred.__deferred_lease (receipt);
create index __deferred_lease_expires on deferred.__deferred_lease (expires_at);
create index __deferred_lease_worker on deferred.__deferred_lease (worker);
create index __deferred_lease_span on deferred.__deferred_lease using gist (span);

-- One row: what maintenance has done that reads much.
create table deferred.__deferred_upkeep (
    -- When stranded jobs were looked for last: deferred.__repair().
    repaired_at  timestamptz not null,
    -- Transaction that did so. If this cluster has not given it out, a dump was restored.
    repaired_xid xid8 not null default '0',
    purged_at    timestamptz,  -- When "deferred purge" ran to its end last; NULL: never.
    purged_older interval,  -- Age up to which that purge kept jobs.
    -- When next ticks were last computed again: deferred.__schedule_check().
    schedules_at timestamptz not null default '-infinity',
    -- Purges may have taken attempts that ended before it, and none that ended later.
    log_from     timestamptz not null default '-infinity',
    -- Once ids have come this far partitions are to be added: deferred.__id_room().
    room_until   bigint not null default 0,
    repair_page  bigint not null default 0,  -- Page of __deferred_hot from which on it goes on.
    -- Queue of the lane behind which it goes on.
    repair_queue text collate "C" not null default '',
    repair_priority smallint not null default -32768,  -- Priority of that lane.
    -- When functions that crash were looked for last: deferred.__breaker().
    breakers_at  timestamptz not null default '-infinity',
    -- When problems were last looked for: deferred.__alert(). -infinity: nobody has wanted reports
    -- so far.
    alerts_at    timestamptz not null default '-infinity',
    -- When builds of plugins were last compared, once an hour.
    builds_at    timestamptz not null default '-infinity'
);
insert into deferred.__deferred_upkeep values ('-infinity');

grant usage on schema deferred to deferred_producer, deferred_worker, deferred_viewer,
      deferred_purger;
grant select on deferred.__deferred_migration to deferred_producer, deferred_worker,
      deferred_viewer, deferred_purger;
-- `deferred doctor`
grant select on deferred.__deferred_source, deferred.__deferred_upkeep to deferred_worker;
grant select on deferred.__deferred_source to deferred_viewer;  -- and the page of it
grant select on deferred.__deferred, deferred.__deferred_log,
      deferred.__deferred_queue to deferred_worker;
grant select, update, delete on deferred.__deferred_hot to deferred_worker;
grant insert on deferred.__deferred_log to deferred_worker;
grant select, insert, update, delete on deferred.__deferred_cursor,
      deferred.__deferred_lease to deferred_worker;
grant select, insert (instance, host, pid, version, queues, watch, cnt, runners, mode),
    update (queues, watch, seen_at, ended_at) on deferred.__deferred_worker to deferred_worker;
grant select on deferred.__deferred_queue, deferred.__deferred_worker to deferred_viewer;
grant select (queue, worker, ids, span, snap, alone, claimed_at, expires_at)
    on deferred.__deferred_lease to deferred_viewer;
grant select (id, queue, fn, priority, xid, due_at, visible_at, attempt, worker, started_at,
              expires_at, key) on deferred.__deferred_hot to deferred_viewer;
grant select (ctid, job_id, attempt, outcome, final, exit_code, signal, started_at, finished_at,
              worker, plugin, wait_us, run_us,
              user_us, sys_us, max_rss_kb) on deferred.__deferred_log to deferred_viewer;
-- Workers kept level: check_deferred --balance GROUP:RANGE.

-- Groups of workers that are kept level, made by the first worker that names one.
create table deferred.__deferred_group (
    name  text primary key check (name ~ '^[A-Za-z0-9_.-]{1,63}$'),  -- Name of the group.
    -- Round under way: each live track may make this many steps in it.
    round bigint not null default 0 check (round >= 0),
    -- Steps of that round: the smallest range of the tracks that were live when it began.
    steps integer not null check (steps >= 1)
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

-- Workers that are in a group and have work: those that the others of the group wait for.
create table deferred.__deferred_track (
    worker      bigint primary key,  -- Worker: __deferred_worker.id.
    group_name  text not null,  -- Its group: __deferred_group.name.
    range       integer not null check (range >= 1),  -- Range it was started with.
    since       bigint not null,  -- Round in which it joined.
    round       bigint not null check (round >= since),  -- Round it is in.
    -- Steps it reported of that round: attempts begun.
    made        integer not null check (made >= 0),
    -- Not reported again by then, it is taken for dead and blocks nobody.
    lease_until timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
create index __deferred_track_group on deferred.__deferred_track (group_name);
grant select on deferred.__deferred_group, deferred.__deferred_track to deferred_worker,
      deferred_viewer;
grant delete on deferred.__deferred_track to deferred_worker;

-- Stored queries whose rows become jobs.
create table deferred.__deferred_rule (
    id                   bigint generated always as identity primary key,  -- Rule id.
    -- Name it is run by.
    name                 text collate "C" not null unique
        check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'),
    query                text not null,  -- One SELECT; each row becomes a job.
    fn                   text collate "C" not null,  -- Function of the jobs.
    -- Object whose members every job gets, unless the query has a column of that name.
    params               json not null default '{}',
    -- Column whose text is the key of the job, among the jobs of its owner.
    key_column           text not null,
    queue                text collate "C" not null default 'default',  -- Queue of the jobs.
    priority             smallint not null default 0,  -- Priority of the jobs.
    -- Further options of the jobs, as deferred.defer() takes them.
    opts                 json not null default '{}',
    -- Role that added it. The query runs with its rights, and the jobs are its jobs. Stored by oid:
    -- a new role of the same name is another role.
    owner                regrole not null,
    search_path          text not null,  -- The search_path of its owner when it was added.
    -- Limit of one run, milliseconds.
    statement_timeout_ms integer not null check (statement_timeout_ms > 0),
    -- When it was added (database clock).
    created_at           timestamptz not null default clock_timestamp(),
    last_run_at          timestamptz,  -- When the last run began (database clock).
    last_run_ms          bigint,  -- Duration of that run, milliseconds.
    last_run_by          name,  -- Login role that ran it.
    last_queued          bigint,  -- Rows it made jobs of; NULL: it failed as a whole.
    last_skipped         bigint,  -- Rows whose key was hot already.
    last_failed          bigint,  -- Rows without a key, or beyond a limit of the queue.
    last_error           text  -- Why it failed.
);

-- ---------------------------------------------------------------- where limits stand

-- Functions that have a limit, in whatever queue; one without has no row.
create table deferred.__deferred_function (
    -- Name of the function.
    name        text collate "C" primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    -- Attempts at once, all workers together; NULL: no limit.
    max_running integer check (max_running > 0),
    -- Attempts a second, all workers together; NULL: no limit.
    rate        double precision check (rate between 1e-7 and 1e6),
    -- Attempts that may start at once after a pause, where there is a rate; NULL: 1.
    burst       integer check (burst between 1 and 1000000),
    -- Since then the breaker has paused it, whose limits it has: __breaker.sql; NULL: not paused.
    broken_at   timestamptz,
    -- While it is paused by the breaker: max_running as it was set.
    own_max_running integer check (own_max_running > 0),
    own_rate    double precision check (own_rate between 1e-7 and 1e6),  -- The same of rate.
    own_burst   integer check (own_burst between 1 and 1000000),  -- The same of burst.
    check (coalesce(max_running, rate) is not null)
);

-- Where limits stand; a row is locked by the claim that uses it and made by the first one.
create table deferred.__deferred_limit (
    -- Kind of limit: of a queue, a function or a concurrency key.
    kind      text collate "C" not null check (kind in ('queue', 'function', 'key')),
    queue     text collate "C" not null,  -- The queue, or that of the key; empty for a function.
    -- The function, or the hash of the key; empty for a queue.
    name      text collate "C" not null,
    -- Ids of jobs that may be running. One counts while its hot row has a receipt.
    running   bigint[] not null default '{}',
    -- Attempts that might have started at tokens_at; NULL: as many as burst says.
    tokens    double precision,
    tokens_at deferred.__moment,  -- When tokens was counted (database clock).
    -- Last claim, or last look by deferred.maintain(), which removes rows of keys no hot job has.
    used_at   deferred.__moment not null default clock_timestamp(),
    primary key (kind, queue, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- The state of a claim under limits between its steps: see deferred.__claim_limited().
create type deferred.__limited as (
    -- Lanes: a queue, and a function that has ready jobs without a key there.
    lane_queues    text[] collate "C",
    lane_fns       text[] collate "C",
    -- Jobs with a key whose turn it is, in step with their queues and the hashes of their keys.
    key_jobs       bigint[],
    key_queues     text[] collate "C",
    key_hashes     text[] collate "C",
    key_fns        text[] collate "C",  -- Functions of these jobs.
    strange_queues text[] collate "C",  -- Lanes of functions that the worker does not know.
    strange_fns    text[] collate "C",  -- Their functions.
    steps          integer,  -- Steps through indexes.
    round          text,  -- Where the round through all queues is.
    more           boolean,  -- The round has not ended.
    idle           boolean,  -- Nothing was found.
    queues         text[] collate "C",  -- Those of the queues that have a limit.
    fns            text[] collate "C",  -- Those of the functions that have a limit.
    wanted         bigint,  -- Limits that matter.
    -- The limits that this claim has locked. The next three are in step with them.
    limits         deferred.__deferred_limit[],
    rooms          integer[],  -- Jobs that may be taken.
    limit_rates    double precision[],
    broken         boolean[],  -- True: the breaker paused the function.
    busy           boolean,  -- Other limits that matter are locked by somebody else.
    now            timestamptz,  -- When tokens were counted.
    wait_ms        bigint,  -- Until a rate allows the next job. NULL: not known.
    seen           bigint,  -- Jobs that may be taken, or are locked.
    tids           tid[],  -- Jobs that were chosen. The next 14 are in step with them.
    hashes         text[] collate "C",
    rates          double precision[],
    lease_ms       bigint[],
    max_attempts   integer[],
    ids            bigint[],
    attempts       integer[],
    attempt_bases  integer[],
    ready_since    timestamptz[],
    parents        boolean[],  -- True: may have waited for others.
    priorities     integer[],
    job_queues     text[] collate "C",
    job_fns        text[] collate "C",
    singles        boolean[],  -- True: losing the lease is an attempt.
    receipts       bigint[],
    first          bigint,  -- Lowest id.
    last           bigint,  -- Highest id.
    expired        bigint[]  -- Jobs that were chosen, and have expired.
);

grant select on deferred.__deferred_function to deferred_worker, deferred_viewer;
-- a claim that meets an unmarked job
grant select, insert on deferred.__deferred_limited to deferred_worker;
grant select on deferred.__deferred_limited to deferred_viewer;
grant select, insert, update on deferred.__deferred_limit to deferred_worker;
grant select on deferred.__deferred_limit to deferred_viewer;

-- Locked by a claim that adds rows to __deferred_limit; advisory locks would be open to anybody who
-- can connect.
create table deferred.__deferred_limit_guard (
    -- Hash of the row to be added; from 1024 on of the lane, by claims that wait for it or add its
    -- first place.
    n integer primary key
);
insert into deferred.__deferred_limit_guard select generate_series(0, 2047);
grant select, update on deferred.__deferred_limit_guard to deferred_worker;
grant select (limited, unknown, concurrency_key) on deferred.__deferred_hot to deferred_viewer;

-- How far attempts in progress are, for those functions that say so; of use only while a hot row
-- with that attempt is claimed.
create table deferred.__deferred_progress (
    job_id      bigint primary key,  -- Id of the job.
    attempt     integer not null,  -- Number of the attempt that reported.
    done        bigint,  -- How much is done, in units of the function. NULL: not reported.
    total       bigint,  -- How much there is in all. NULL: not known.
    text        text,  -- Present step, for people.
    reported_at deferred.__moment not null  -- When the function said so (database clock).
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
grant select, insert, update, delete on deferred.__deferred_progress to deferred_worker;
grant select on deferred.__deferred_progress to deferred_viewer;
-- maintain.sql
grant select (job_id, attempt, reported_at), delete
    on deferred.__deferred_progress to deferred_purger;
grant select (id, attempt) on deferred.__deferred_hot to deferred_purger;

-- ---------------------------------------------------------------- tables

-- Accounts of the HTTP front; the queues of an account are those whose names begin with its name
-- and a dot.
create table deferred.__deferred_account (
    -- Name of the account, 3 to 24 lower-case letters and digits.
    name          text collate "C" primary key check (name ~ '^[a-z0-9]{3,24}$'),
    enabled       boolean not null default true,  -- False: every request is refused.
    key1          bytea not null,  -- First key, encrypted: lib/program/account_key.h.
    key2          bytea not null,  -- Second key, encrypted.
    properties    json,  -- Service properties, as they were set.
    -- Functions that its messages may become calls of, each by its name or, as PREFIX.*, by how it
    -- begins.
    functions     text[] collate "C" not null default '{}',
    -- When it was added (database clock).
    created_at    timestamptz not null default clock_timestamp(),
    key1_since    timestamptz not null default clock_timestamp(),  -- When the first key was made.
    key2_since    timestamptz not null default clock_timestamp()  -- When the second key was made.
);
grant usage on schema deferred to deferred_http;
grant select on deferred.__deferred_migration to deferred_http;

-- ---------------------------------------------------------------- `deferred why` and `deferred
-- top`, by a viewer: no params, results, errors, receipts

grant select on deferred.__deferred_upkeep, deferred.__deferred_cursor,
      deferred.__deferred_id_seq to deferred_viewer;
grant select on deferred.__deferred_id_seq to deferred_worker;
grant select (xmax, attempt_base, concurrency) on deferred.__deferred_hot to deferred_viewer;

-- ---------------------------------------------------------------- figures: sums of the log, kept
-- by deferred.__fold()

-- Of what there are sums: of all, each queue, each function, and each queue, function and build;
-- made by deferred.__fold().
create table deferred.__deferred_series (
    -- Number of the series; from 20,000 on what is new is put into that of function + and no
    -- plugin.
    id     integer generated always as identity primary key,
    queue  text collate "C" not null,  -- Queue; *: summed over all.
    -- Function; *: summed over all; empty: messages; +: those for which there was no room.
    fn     text collate "C" not null,
    -- Plugin, version and build; *: summed over all; empty: nobody ran it.
    plugin text collate "C" not null,
    unique (queue, fn, plugin)
);

-- Sums of the log and of deferred jobs: by minute for 8 days, by hour for 400 days, and since the
-- beginning. The function deferred.__fold() maintains them and could compute them again.
create table deferred.__deferred_sum (
    span        smallint not null,  -- 1: of a minute; 60: of an hour; 0: since ever.
    -- Begin of the minute or hour in which attempts ended and jobs were deferred. -infinity: since
    -- ever.
    at          timestamptz not null,
    series      integer not null,  -- Of what: __deferred_series.id.
    ok          bigint not null,  -- Attempts that ended so.
    failed      bigint not null,  -- Attempts that ended so.
    crashed     bigint not null,  -- Attempts that ended so.
    timeout     bigint not null,  -- Attempts that ended so.
    interrupted bigint not null,  -- Attempts that ended so.
    superseded  bigint not null,  -- Attempts that ended so.
    lost        bigint not null,  -- Attempts that ended so.
    cancelled   bigint not null,  -- Attempts that ended so.
    expired     bigint not null,  -- Attempts that ended so.
    snoozed     bigint not null,  -- Attempts that ended so.
    dead        bigint not null,  -- Attempts with which a job died.
    arrived     bigint not null,  -- Jobs deferred; in the series without a plugin.
    wait_us     bigint not null,  -- Sum of wait_us of the log.
    run_us      bigint not null,  -- Sum of run_us of the log.
    cpu_us      bigint not null,  -- Sum of user_us and sys_us of the log.
    max_rss_kb  bigint not null,  -- Largest max_rss_kb of the log.
    -- How long they waited: {bucket, attempts} for each bucket in use, deferred.__bucket().
    wait        bigint[] not null,
    run         bigint[] not null,  -- How long they ran, as wait.
    primary key (span, series, at)
) partition by list (span);
create table deferred.__deferred_total partition of deferred.__deferred_sum
    for values in (0) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
create table deferred.__deferred_minute partition of deferred.__deferred_sum
    for values in (1) with (autovacuum_vacuum_cost_delay = 0);
create table deferred.__deferred_hour partition of deferred.__deferred_sum
    for values in (60) with (autovacuum_vacuum_cost_delay = 0);

-- Roles whose jobs of a function had attempts in the last 7 days; deferred.__breaker() reads it.
create table deferred.__deferred_caller (
    fn         text collate "C" not null,  -- Function.
    creator    text collate "C" not null,  -- Role that deferred the jobs.
    crashed_at timestamptz,  -- Minute of the last attempt that crashed; NULL: none did.
    -- Minute of the last attempt that ended in another way; NULL: none did.
    other_at   timestamptz,
    primary key (fn, creator)
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

-- Functions of which attempts crashed lately: deferred.__crashed().
create table deferred.__deferred_crash (
    fn    text collate "C" primary key,  -- Function.
    -- How many attempts crashed. At first those before its last success count, too.
    n     bigint not null,
    since timestamptz not null  -- The first of them ended after that.
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

-- How much lay in the queues, a sample a minute, kept for 8 days.
create table deferred.__deferred_depth (
    at       timestamptz not null,  -- When it was taken (database clock).
    queue    text collate "C" not null,  -- Queue.
    ready    bigint not null,  -- Jobs ready, of 1,000 looked at.
    delayed  bigint not null,  -- Jobs delayed, the same.
    claimed  bigint not null,  -- Jobs claimed, the same.
    more     boolean not null,  -- There were more.
    oldest_s bigint,  -- Seconds the longest waiting of them had been ready; NULL: none was.
    paused   boolean not null,  -- The queue was paused.
    primary key (queue, at)
);

-- One row: how far the log has been folded; locked by who folds.
create table deferred.__deferred_folded (
    -- Attempts that ended before that have been summed, except those recorded later.
    folded_to  timestamptz not null,
    -- Those that ended before that have been compared with the log again.
    exact_to   timestamptz not null,
    id_to      bigint not null,  -- Jobs up to this id have been counted as deferred.
    -- Span of the log that one transaction folds: shorter where there is much.
    slice      interval not null,
    sampled_at timestamptz not null  -- When the depth of the queues was looked at last.
) with (fillfactor = 10, autovacuum_vacuum_cost_delay = 0);
insert into deferred.__deferred_folded
values (now(), date_bin('1 minute', now(), '2000-01-01 00:00+00'), 0, '1 minute', '-infinity');

grant select on deferred.__deferred_series, deferred.__deferred_sum, deferred.__deferred_depth,
      deferred.__deferred_folded to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- operators: deferred_web

-- Actions of operators by deferred_web and commands, actions that pages refused, and who released a
-- job that waited. The rows stay until somebody deletes them.
create table deferred.__deferred_action (
    id      bigint generated always as identity primary key,  -- Number of the action.
    at      timestamptz not null default clock_timestamp(),  -- When (database clock).
    -- Person, as the caller says: the name that the page knows, or the user of a machine and the
    -- command.
    who     text not null,
    role    text collate "C" not null,  -- Role of the database that acted.
    -- Login of the session that acted, which the database knows.
    login   text collate "C" not null,
    -- Address they came from, the word of whoever called; NULL: a socket of this machine.
    address text,
    -- Retry, run, cancel, pause, resume, set, clear, remove, defer or release.
    verb    text not null,
    -- Job it was done to, or that was deferred. One of these four or flow is not NULL, or there is
    -- a filter.
    job_id  bigint,
    queue   text collate "C",  -- Queue it was done to.
    fn      text collate "C",  -- Function it was done to, or of which a job was to be deferred.
    schedule text collate "C",  -- Schedule it was done to.
    -- Settings that were changed, or the options of a deferred job, as they were given. NULL: none.
    settings json,
    refused text,  -- Why it was not done; NULL: it was.
    -- Of an action on many jobs at once: the filter that they match. A step of 1,000 is a row.
    -- NULL: it was done to one thing.
    filter  json,
    jobs    bigint,  -- How many jobs it was done to. An action of several steps has a row for each.
    flow    bigint  -- Flow it was done to. An action of several steps has a row for each.
);
create index __deferred_action_job on deferred.__deferred_action (job_id, id)
    where job_id is not null;
create index __deferred_action_queue on deferred.__deferred_action (queue, id)
    where queue is not null;
create index __deferred_action_fn on deferred.__deferred_action (fn, id) where fn is not null;
create index __deferred_action_schedule on deferred.__deferred_action (schedule, id)
    where schedule is not null;
create index __deferred_action_flow on deferred.__deferred_action (flow, id) where flow is not null;

grant usage on schema deferred to deferred_reader, deferred_operator;
-- A reader also sees what functions are given, what they answer, and why they failed.
grant select on deferred.__deferred, deferred.__deferred_log to deferred_reader;
grant select (id, queue, fn, label, key, priority, run_at, expires_at, max_attempts, timeout_ms,
              created_at, created_by, concurrency_key, concurrency, rule, traceparent)
    on deferred.__deferred to deferred_viewer;
grant select on deferred.__deferred_action to deferred_reader;
-- ---------------------------------------------------------------- recurring jobs

-- A time rule, read: deferred.__cron_parse().
create type deferred.__cron as (
    -- Microseconds from tick to tick, counted from 1970; NULL: the other columns say.
    every_us bigint,
    minutes  bigint,  -- Bit n: minute n.
    hours    integer,  -- Bit n: hour n.
    days     bigint,  -- Bit n: day n of the month, bit 32: the last one.
    months   integer,  -- Bit n: month n.
    weekdays integer,  -- Bit n: weekday n, 0 is Sunday.
    -- Bit 8 * weekday + n: the nth such weekday of the month, n = 6: the last one.
    nth      bigint,
    both_days boolean,  -- True: day and weekday must both match; false: one will do.
    -- True: neither minute nor hour begins with *. Changes of clocks then neither skip nor repeat a
    -- tick.
    fixed    boolean
);

-- Recurring jobs: a call and the times at which it is deferred.
create table deferred.__deferred_schedule (
    id         bigint generated always as identity primary key,  -- Schedule id.
    -- Name of the schedule.
    name       text collate "C" not null unique check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'),
    -- When, as it was given: five fields as in crontab(5), a word such as @daily, or every SPAN.
    rule       text not null,
    cron       deferred.__cron not null,  -- The rule, read.
    zone       text not null,  -- Time zone by which the rule is read: a name of pg_timezone_names.
    fn         text collate "C" not null,  -- Function of the jobs.
    params     json not null default '{}',  -- Argument of the calls.
    queue      text collate "C" not null default 'default',  -- Queue of the jobs.
    -- Further options of the jobs, as deferred.defer() takes them.
    opts       json not null default '{}',
    -- Ticks that were not processed in time: one job for the latest, all, or skip.
    missed     text not null default 'one' check (missed in ('one', 'all', 'skip')),
    -- Where missed ticks are skipped: one that is late by less is not missed, milliseconds.
    late_ms    bigint not null default 300000 check (late_ms > 0),
    -- While the job of the last tick is hot: skip the tick, queue one behind it, allow both, or
    -- replace it.
    overlap    text not null default 'skip' check (overlap in ('skip', 'queue', 'allow',
        'replace')),
    -- The job is due up to this many milliseconds after its tick.
    jitter_ms  bigint not null default 0 check (jitter_ms >= 0),
    paused     boolean not null default false,  -- True: no ticks.
    next_at    timestamptz,  -- Next tick; NULL: paused, or there is none any more.
    -- When a lock kept a tick from being processed. Equal to next_at: not a tick, but another look
    -- at a schedule whose rule could not be read. NULL: neither.
    tried_at   timestamptz,
    last_at    timestamptz,  -- Tick that was processed last.
    last_what  text,  -- Its result, as __deferred_tick.what.
    queued_at  timestamptz,  -- Last tick that became a job.
    last_job   bigint,  -- That job.
    last_error text,  -- Why the last tick did not become a job; NULL: it did.
    -- Role that set it; the jobs are its jobs. Stored by oid: a new role of the same name is
    -- another role.
    owner      regrole not null,
    source     text,  -- File it comes from; NULL: set by hand.
    -- When it was set first (database clock).
    created_at timestamptz not null default clock_timestamp(),
    changed_at timestamptz not null default clock_timestamp(),  -- When it was changed last.
    -- When next_at was last computed again, for clocks that jumped and time zones that changed:
    -- deferred.__schedule_check().
    checked_at timestamptz not null default clock_timestamp(),
    check (paused is false or next_at is null)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
create index __deferred_schedule_next on deferred.__deferred_schedule (next_at)
    where next_at is not null;
create index __deferred_schedule_owner on deferred.__deferred_schedule (owner);

-- Ticks that were dealt with: that there is one row at most for each is why none becomes two jobs.
create table deferred.__deferred_tick (
    -- Schedule: __deferred_schedule.id.
    schedule bigint not null references deferred.__deferred_schedule on delete cascade,
    -- The moment that the rule names; of a run by hand when that was.
    tick     timestamptz not null,
    -- Its result: queued, no job for overlap, missed, failed, or run by hand.
    what     text not null check (what in ('queued', 'overlap', 'missed', 'failed', 'by hand')),
    job_id   bigint,  -- Its job; NULL: none.
    previous timestamptz,  -- Tick before it that became a job; NULL: none did.
    -- When it was processed (database clock).
    at       timestamptz not null default clock_timestamp(),
    primary key (schedule, tick)
);
create index __deferred_tick_job on deferred.__deferred_tick (job_id) where job_id is not null;
create index __deferred_tick_at on deferred.__deferred_tick (at);

-- One row with a version, which each start reads first: each further table would cost it half a
-- millisecond. And notes of schedules that were set since: deferred.__schedule_moved().
create table deferred.__deferred_state (
    version   integer,  -- Schema version, as __deferred_migration has it; NULL: a note.
    oldest    integer,  -- Programs of this schema version, or a later one, work with the schema.
    -- No schedule has a tick before the least of these; infinity: none has one.
    next_tick timestamptz not null
) with (fillfactor = 10, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
insert into deferred.__deferred_state (version, oldest, next_tick) values (0, 0, 'infinity');

grant select on deferred.__deferred_state to deferred_producer, deferred_worker, deferred_viewer,
      deferred_purger;
grant select on deferred.__deferred_schedule to deferred_worker;

-- ---------------------------------------------------------------- jobs that wait for jobs: how
-- they work stands in sql/functions/flow/__settle.sql

-- The work that is left of a call of deferred.__settle().
create type deferred.__settling as (
    budget   integer,   -- How many rows it may still look at.
    dealt    integer,   -- How many notes it took.
    children bigint[],  -- Edges to be counted: the child,
    parents  bigint[],  -- the parent,
    whats    text[],    -- and how the parent ended.
    links    bigint[],  -- Jobs to be linked with their parents,
    links_of bigint[],  -- with all (NULL) or one: __deferred_ended.upto.
    ended    bigint[],  -- Jobs that have ended.
    failed   bigint[],  -- Jobs that have failed, if this is the first to say so.
    over     bigint[],  -- Notes that are done with.
    backs    bigint[],  -- Callbacks of flows that have ended,
    unmet    bigint[],  -- with unmet
    failure  bigint[],  -- and failure of their rows in __deferred_wait.
    again    bigint[],  -- Edges to be looked at again: the child
    again_of bigint[]   -- and the parent.
);

-- One job waits for another. The row stays until the child is purged.
create table deferred.__deferred_edge (
    child  bigint not null,  -- Job that waits.
    -- Job it waits for. The parent is older, so cycles are impossible.
    parent bigint not null check (parent < child),
    -- Met when the parent has ended. o: well; f: in failure; e: in any way. Of a callback, which
    -- waits for all jobs of its flow, O: none may have failed; F: one must have.
    kind   "char" not null check (kind in ('o', 'f', 'e', 'O', 'F')),
    -- How the parent ended. o: well; f: in failure. It never ran, s: because something failed; n:
    -- because it was not needed. NULL: not counted yet.
    what   "char" check (what in ('o', 'f', 's', 'n')),
    name   text collate "C",  -- Name by which the job calls this parent. NULL: by its number.
    primary key (child, parent)
) with (fillfactor = 80, autovacuum_vacuum_cost_delay = 0);
create index __deferred_edge_parent on deferred.__deferred_edge (parent, child);

-- Jobs that wait; locked by deferred.__settle(), in the order of their ids, and by
-- deferred.flow_retry() while none of those is under way.
create table deferred.__deferred_wait (
    id     bigint primary key,  -- The job.
    waits  integer not null,  -- Edges of it that are not met.
    unmet  bigint,  -- A parent that did not end as it must. NULL: none so far.
    -- Of a callback that wants a failure: a job that failed or was skipped for a failure. 0: none
    -- so far. NULL: it is not such a callback.
    failure bigint,
    due_at timestamptz  -- Not to be run before. NULL: as soon as it no longer waits.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- Ends of watched jobs, stored with the end itself, until deferred.__settle() has processed all
-- jobs that wait.
create table deferred.__deferred_ended (
    n     bigint generated always as identity primary key,  -- Number of the note.
    id    bigint not null,  -- Job it is about; of c and z: the flow.
    -- How it ended, as __deferred_edge.what. Besides, l: a job to be looked at, which waits for
    -- jobs that were there before it. And c: a flow of which a job failed, so that the rest is
    -- cancelled. And z: a closed flow that may have ended.
    what  "char" not null check (what in ('o', 'f', 's', 'n', 'l', 'c', 'z')),
    after bigint not null default 0,  -- Jobs up to this id that wait for it have been processed.
    -- Waiting jobs up to this id are processed. Others were deferred since, perhaps when the job
    -- was to run again. Of l: the one parent to be looked at again. 0: only the job itself. NULL:
    -- all of it. Of c: its jobs between after and upto are left.
    upto  bigint,
    -- Transaction that added the note, whose order is that of the notes: as of __deferred_hot.
    xid   xid8 not null default pg_catalog.pg_current_xact_id(),
    -- True: it was postponed, because a row that it is about was locked.
    late  boolean not null default false,
    not_before timestamptz not null default '-infinity'  -- Not to be looked at before.
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
-- Those at once and those put off, each in order.
create index __deferred_ended_order on deferred.__deferred_ended (late, xid, n);

-- How far notes of __deferred_ended have been processed. Of each kind the row with the highest seq
-- counts.
create table deferred.__deferred_ended_cursor (
    late boolean not null,  -- Of which notes: __deferred_ended.late.
    -- Number of the cursor: a step adds the next one and deletes the one before.
    seq  bigint not null,
    done pg_snapshot not null,  -- Notes of transactions that are visible in this snapshot ...
    at   xid8 not null,  -- ... and come before this one have been processed.
    primary key (late, seq)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
insert into deferred.__deferred_ended_cursor values (false, 1, '1:1:', '0'), (true, 1, '1:1:', '0');
grant select on deferred.__deferred_ended_cursor to deferred_worker;
grant select, insert (id, what, upto) on deferred.__deferred_ended to deferred_worker;
grant select on deferred.__deferred_edge, deferred.__deferred_wait to deferred_worker,
      deferred_viewer;

-- ---------------------------------------------------------------- flows: jobs deferred together,
-- sql/functions/flow/defer_flow.sql

-- Jobs that were deferred together; written again when the first of them has failed, and when it is
-- retried.
create table deferred.__deferred_flow (
    id         bigint primary key,  -- Of the sequence that numbers jobs, below those of its jobs.
    label      text collate "C",  -- Text for people.
    jobs       integer,  -- How many there are, with callbacks; NULL: jobs may be added to it still.
    -- When it was deferred (database clock).
    created_at timestamptz not null default clock_timestamp(),
    created_by name not null,  -- Role that deferred it.
    -- Cancel: the first job that fails has the rest cancelled; continue: it does not.
    on_failure text collate "C" not null default 'continue' check (on_failure in ('continue',
        'cancel')),
    -- The job that failed first, for which the rest is or was cancelled. NULL: none, or nothing is
    -- cancelled for it.
    failed     bigint,
    -- When it was last retried: an earlier failure cancels nothing. NULL: never.
    retried_at timestamptz,
    opened     boolean not null default false,  -- True: deferred.flow_open() made it.
    spec       json,  -- Of such a one that has ended: as in __deferred_flow_open.
    callbacks  bigint[]  -- As well.
) with (autovacuum_vacuum_cost_delay = 0);

-- Flows that were opened and have not ended: __flow_end.sql. A transaction that adds jobs locks the
-- row (for key share) before it draws their ids.
create table deferred.__deferred_flow_open (
    flow      bigint primary key,  -- The flow.
    -- Its callbacks, and their traceparent, as deferred.flow_open() was given them; NULL: none.
    spec      json,
    callbacks bigint[],  -- The jobs they became, in step; NULL: none yet.
    -- From then on it ends with the last of its jobs. NULL: it is open for more jobs.
    closed_at timestamptz,
    -- True: it takes no more jobs, and those that are found are cancelled.
    cancelled boolean not null default false,
    upto      bigint not null default 0,  -- Of a closed one: jobs up to this one have ended.
    jobs      integer not null default 0,  -- How many those are, without callbacks.
    -- The first job behind those, whose end is awaited. NULL: there is a note z, or it is not
    -- closed.
    waits_for bigint,
    failed    bigint  -- The first of those that failed or was skipped for a failure; NULL: none.
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
create index __deferred_flow_open_waits_for on deferred.__deferred_flow_open (waits_for)
    where waits_for is not null;

-- The jobs of flows; kept until they are purged.
create table deferred.__deferred_member (
    flow bigint not null,  -- The flow.
    job  bigint not null,  -- Its job.
    name text collate "C",  -- Name by which the flow calls it. NULL: by its number.
    -- A callback is t. A job that waits for the failure or the end of another job of the flow is s:
    -- no failure cancels it. NULL: neither.
    part "char" check (part in ('s', 't')),
    primary key (flow, job)
) with (autovacuum_vacuum_cost_delay = 0);
create unique index __deferred_member_job on deferred.__deferred_member (job);

-- Flows that somebody wants retried; of each flow the last one, and one that has not come to its
-- end, are kept.
create table deferred.__deferred_flow_retry (
    n            bigint generated always as identity primary key,  -- In their order.
    -- The flow; no foreign key, for that would lock its row in the transaction of whoever asks.
    flow         bigint not null,
    requested_by name not null,  -- Role that asked for it.
    requested_at timestamptz not null default clock_timestamp(),  -- When.
    after        bigint not null default 0,  -- Jobs up to this id have been processed.
    not_before   timestamptz not null default '-infinity',  -- It was postponed until then.
    ready        bigint not null default 0,  -- Jobs that are run again.
    waiting      bigint not null default 0,  -- Jobs that wait again.
    refused      bigint not null default 0,  -- Jobs that could not be either.
    why          text collate "C",  -- Why the first of those could not.
    ended_at     timestamptz  -- When all jobs of the flow had been processed.
) with (autovacuum_vacuum_cost_delay = 0);
create unique index __deferred_flow_retry_wanted on deferred.__deferred_flow_retry (flow)
    where ended_at is null;
create index __deferred_flow_retry_flow on deferred.__deferred_flow_retry (flow);
grant select on deferred.__deferred_flow, deferred.__deferred_flow_open, deferred.__deferred_member,
      deferred.__deferred_flow_retry to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- being told:
-- sql/functions/alert/__alert.sql


-- Problems, open or past, and when they were reported: a row for each cause and queue, function,
-- crontab line or service.
create table deferred.__deferred_alert (
    -- Problem. Jobs died: dead. A queue is late: late, or unserved if no worker serves it. A
    -- function fails more than before: failing. Its build is slower or bigger. The breaker paused
    -- it. A crontab line or service is absent while others come.
    cause    text collate "C" not null check (cause in ('dead', 'late', 'unserved', 'failing',
                                                        'slower', 'bigger', 'breaker', 'absent')),
    name     text collate "C" not null,  -- Queue or function; of what is missed host and pidfile.
    since    timestamptz not null default now(),  -- When it was found, this time (database clock).
    seen_at  timestamptz not null default now(),  -- When it was last found.
    ended_at timestamptz,  -- When the problem was no longer found. NULL: it is open.
    -- When it was last reported: jobs that report it were deferred in that transaction. NULL:
    -- never.
    reported_at  timestamptz,
    -- Of dead jobs: how many had died since ever when that was reported.
    counted  bigint not null default 0,
    text     text not null,  -- One sentence, for people.
    remedy     text not null,  -- The command that shows more, or fixes it.
    -- Alerts of one kind share a budget of messages: queue, or the cause.
    kind     text collate "C" not null generated always as
             (case when cause in ('late', 'unserved') then 'queue' else cause end) stored,
    primary key (cause, name)
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
grant select on deferred.__deferred_alert to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- a function for each dead job:
-- sql/functions/alert/__notice.sql

-- Functions that are deferred for each job that dies. This is not a setting of the queue or
-- function: without a row here nothing is read, and no job has a limit for it.
create table deferred.__deferred_on_dead (
    -- Whose jobs: those of a queue, or of a function, which goes first.
    kind  text collate "C" not null check (kind in ('queue', 'function')),
    name  text collate "C" not null,  -- Queue or function.
    -- Function that is deferred.
    fn    text collate "C" not null check (fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    -- When it was first set: earlier deaths are not reported.
    since timestamptz not null default clock_timestamp(),
    primary key (kind, name)
);

-- Deaths for which a job was deferred, written in the same transaction; kept 2 hours behind the
-- bookmark.
create table deferred.__deferred_noticed (
    job_id      bigint not null,  -- Job that died.
    -- Number of the attempt. A job that is retried by hand and dies again is another death.
    attempt     integer not null,
    finished_at timestamptz not null,  -- When, as in __deferred_log.
    primary key (job_id, attempt)
) with (autovacuum_vacuum_cost_delay = 0);
create index __deferred_noticed_finished on deferred.__deferred_noticed (finished_at);

-- One row, which who looks for deaths has locked.
create table deferred.__deferred_notice (
    -- Bookmark: when the last walk that came to its end had begun.
    noticed_to timestamptz not null,
    at         timestamptz not null,  -- Deaths up to then were looked at in this walk.
    begun_at   timestamptz  -- When this walk began; NULL: none is under way.
);
insert into deferred.__deferred_notice values ('-infinity', '-infinity', null);
grant select on deferred.__deferred_on_dead to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- indexes for searches

-- Searches that an index serves: `deferred index add`. Each partition has an index of its own,
-- which is built and dropped CONCURRENTLY. An index of the parent would lock it against producers.
create table deferred.__deferred_search (
    -- Index PARTITION_search_NUMBER of each partition of __deferred is the one; no number comes
    -- twice.
    number  integer generated always as identity primary key,
    -- Label, or params. and the keys of a value from the outermost on, with dots between.
    term    text collate "C" not null unique,
    -- False: its indexes are being dropped, and no search uses them.
    wanted  boolean not null default true
);
grant select on deferred.__deferred_search to deferred_viewer, deferred_worker;

reset role;
