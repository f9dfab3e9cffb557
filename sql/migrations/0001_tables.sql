-- 0001 tables: roles, tables, who may read and write them. What is done with them stands in
-- sql/functions.
--
-- The words used here (job, hot, attempt, claim, receipt, lease, dead) are defined in deferred.3
-- and drawn as a state machine in lib/base/job.h.

-- Roles are global to the cluster: another database may have made them already.
do $roles$
declare
    r text;
begin
    foreach r in array array['deferred_owner', 'deferred_producer', 'deferred_worker',
                             'deferred_viewer', 'deferred_purger', 'deferred_http',
                            'deferred_reader', 'deferred_operator'] loop
        if not exists (select from pg_catalog.pg_roles where rolname = r) then
            execute pg_catalog.format('create role %I nologin', r);
        end if;
    end loop;
    -- A migrator who is no superuser must be a member before it can hand objects over.
    if not (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
        execute pg_catalog.format('grant deferred_owner to %I', current_user);
    else
        grant pg_read_all_stats to deferred_owner;  -- deferred.__holder() says since when
    end if;
    if not pg_catalog.pg_has_role('deferred_worker', 'deferred_producer', 'member') then
        grant deferred_producer to deferred_worker;  -- functions may defer further jobs
    end if;
    if not pg_catalog.pg_has_role('deferred_reader', 'deferred_viewer', 'member') then
        grant deferred_viewer to deferred_reader;
    end if;
    if not pg_catalog.pg_has_role('deferred_operator', 'deferred_reader', 'member') then
        grant deferred_reader to deferred_operator;
    end if;
end
$roles$;

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

create table deferred.__deferred_migration (
    version    integer primary key,
    name       text not null,
    applied_at timestamptz not null default clock_timestamp(),
    applied_by name not null default session_user
);
comment on table  deferred.__deferred_migration is 'schema steps applied, one row each';
comment on column deferred.__deferred_migration.version is
    'number of the step; the highest is the schema version';
comment on column deferred.__deferred_migration.name is 'what the step does, from its file name';
comment on column deferred.__deferred_migration.applied_at is
    'when it was applied (database clock)';
comment on column deferred.__deferred_migration.applied_by is 'role that applied it';

create table deferred.__deferred_source (
    name       text collate "C" primary key,
    checksum   text not null,
    applied_at timestamptz not null default clock_timestamp()
);
comment on table  deferred.__deferred_source is
    'functions and views, as `deferred migrate` applied them last';
comment on column deferred.__deferred_source.name is
    'file below sql/ it was made from, without .sql';
comment on column deferred.__deferred_source.checksum is
    'SHA-256 of that file, hexadecimal: where it differs from the program''s, the file is applied '
    'anew';
comment on column deferred.__deferred_source.applied_at is 'when it was applied (database clock)';

-- ---------------------------------------------------------------- queues

create table deferred.__deferred_queue (
    name                  text collate "C" primary key
                          check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'),
    paused                boolean not null default false,
    params_max_bytes      integer not null default 1048576 check (params_max_bytes > 0),
    created_at            timestamptz not null default clock_timestamp(),
    visibility_timeout_ms bigint check (visibility_timeout_ms between 1000 and 86400000),
    ttl_ms                bigint check (ttl_ms between 1 and 3155760000000),
    max_attempts          integer check (max_attempts > 0),
    backoff_floor_ms      bigint check (backoff_floor_ms between 1 and 3155760000000),
    backoff_ceiling_ms    bigint check (backoff_ceiling_ms between 1 and 3155760000000),
    backoff_exponent      double precision check (backoff_exponent between 1 and 100),
    max_running           integer check (max_running > 0),
    rate                  double precision check (rate between 1e-7 and 1e6),
    burst                 integer check (burst between 1 and 1000000),
    max_length            integer check (max_length > 0),
    on_full               text collate "C" not null default 'error' check (on_full in ('error',
        'drop')),
    fn                    text collate "C" check (fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    metadata              json,
    weight                double precision not null default 1 check (weight between 0.001 and 1000),
    removed_at            timestamptz,
    max_dequeue           integer check (max_dequeue between 1 and 1000),
    acl                   json,
    clearing_to           bigint,
    created_by            text collate "C",
    paused_at             timestamptz,
    paused_by             text,
    simple                boolean not null generated always as
                          (num_nonnulls(ttl_ms, max_length, max_running, rate, removed_at) = 0
                           and params_max_bytes >= 512) stored
);
comment on table  deferred.__deferred_queue is
    'queues and their settings; a queue is added by the first job deferred to it';
comment on column deferred.__deferred_queue.name is 'name of the queue';
comment on column deferred.__deferred_queue.paused is 'true: nothing is claimed from it';
comment on column deferred.__deferred_queue.params_max_bytes is 'largest params accepted, in bytes';
comment on column deferred.__deferred_queue.created_at is 'when it was added';
comment on column deferred.__deferred_queue.visibility_timeout_ms is
    'length of a lease, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.ttl_ms is
    'a job deferred without an expiry expires after that, milliseconds; NULL: never';
comment on column deferred.__deferred_queue.max_attempts is
    'of jobs that say nothing; NULL: what the function or the worker says';
comment on column deferred.__deferred_queue.backoff_floor_ms is
    'of jobs that say nothing, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.backoff_ceiling_ms is
    'of jobs that say nothing, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.backoff_exponent is
    'of jobs that say nothing; NULL: what the worker says';
comment on column deferred.__deferred_queue.max_running is
    'attempts at once, all workers together; NULL: no limit';
comment on column deferred.__deferred_queue.rate is
    'attempts a second, all workers together; NULL: no limit';
comment on column deferred.__deferred_queue.burst is
    'attempts that may start at once after a pause, where there is a rate; NULL: 1';
comment on column deferred.__deferred_queue.max_length is
    'hot jobs it holds, each deferral counts that far; NULL: no limit';
comment on column deferred.__deferred_queue.on_full is
    'what a deferral to a full queue does: error, or drop the new job without a word';
comment on column deferred.__deferred_queue.fn is
    'function that a message deferred without one becomes a call of; NULL: it stays a message';
comment on column deferred.__deferred_queue.metadata is
    'for applications; the HTTP front shows fn and max_dequeue with it';
comment on column deferred.__deferred_queue.weight is
    'share of the claims of a worker that serves several queues';
comment on column deferred.__deferred_queue.removed_at is
    'when it was removed; the row stays, so that a job deferred in the same moment is not lost, '
    'and the next deferral brings it back';
comment on column deferred.__deferred_queue.max_dequeue is
    'a message taken so often goes to the queue NAME-poison instead of being taken again; NULL: '
    'no limit';
comment on column deferred.__deferred_queue.acl is
    'stored access policies of the HTTP front, as they were set';
comment on column deferred.__deferred_queue.clearing_to is
    'removed with jobs in it, which are being cleared up to this id; NULL: none are';
comment on column deferred.__deferred_queue.created_by is
    'role that added it by deferring to it, or account: and the account of the HTTP front that '
    'made it; NULL: an administrator, whom no quota binds';
comment on column deferred.__deferred_queue.paused_at is
    'while it is paused: when that was done (database clock); NULL: not known';
comment on column deferred.__deferred_queue.paused_by is
    'while it is paused: the role that did so, or who it was as the page knew them; NULL: not '
    'known';
comment on column deferred.__deferred_queue.simple is
    'true: no setting is about a job without options that is deferred to it, unless its params '
    'are large';

create index __deferred_queue_created_by on deferred.__deferred_queue (created_by)
    where created_by is not null;

insert into deferred.__deferred_queue (name) values ('default');

-- No unique index: two transactions that defer the first such jobs do not wait for each other.
create table deferred.__deferred_limited (
    queue text collate "C" not null
);
create index __deferred_limited_queue on deferred.__deferred_limited (queue);
comment on table  deferred.__deferred_limited is
    'queues in which some hot job may be marked as limited, one row or a few each, which stay';
comment on column deferred.__deferred_limited.queue is 'name of the queue';

create table deferred.__deferred_quota (
    creator text collate "C" primary key,
    queues  integer not null check (queues >= 0),
    schedules integer not null default 1000 check (schedules >= 0)
);
comment on table  deferred.__deferred_quota is
    'how many queues and schedules may be there that somebody added';
comment on column deferred.__deferred_quota.creator is
    'role, or account: and an account of the HTTP front; *: each that has no row';
comment on column deferred.__deferred_quota.queues is 'queues at a time';
comment on column deferred.__deferred_quota.schedules is 'schedules at a time; of roles';

insert into deferred.__deferred_quota (creator, queues) values ('*', 1000);

create table deferred.__deferred_creator (
    name text collate "C" primary key
);
comment on table  deferred.__deferred_creator is
    'who has added queues, up to a tenth of the quota at least; a row is locked to add more';
comment on column deferred.__deferred_creator.name is 'as creator of __deferred_quota';

-- ---------------------------------------------------------------- who may defer what

create table deferred.__deferred_grant (
    role  name not null,
    queue text collate "C",
    fn    text collate "C",
    unique nulls not distinct (role, queue, fn)
);
comment on table  deferred.__deferred_grant is
    'optional limits for producers: a role named here may defer only what its rows allow; a role '
    'not named may defer anything';
comment on column deferred.__deferred_grant.role is
    'login role, or role taken by SET ROLE; the rows of both count, so that SET ROLE does not '
    'lift a limit';
comment on column deferred.__deferred_grant.queue is 'queue allowed; NULL: any';
comment on column deferred.__deferred_grant.fn is 'function allowed; NULL: any';

-- The answer to one question of deferred.defer(), see sql/functions/admin/__restrict.sql.
create sequence deferred.__deferred_unrestricted;
select pg_catalog.setval('deferred.__deferred_unrestricted', 1);
comment on sequence deferred.__deferred_unrestricted is
    '1: no row is in __deferred_grant and __deferred_function; anything else: there may be some';

-- ---------------------------------------------------------------- jobs

create sequence deferred.__deferred_id_seq as bigint;

-- The two tables a defer() writes have no CHECK constraints: PostgreSQL reads their text anew for
-- every statement, which costs a single insert 50 us, more than the two rows themselves. The
-- functions below check what they store, and deferred.check_ledger() finds what got around them.
create table deferred.__deferred (
    id                  bigint not null,
    created_at          timestamptz not null default clock_timestamp(),
    priority            smallint not null default 0,
    queue               text collate "C" not null,
    fn                  text collate "C",
    params              json not null,
    created_by          text collate "C" not null default session_user,
    run_at              timestamptz,
    expires_at          timestamptz,
    timeout_ms          bigint,
    backoff_floor_ms    bigint,
    backoff_ceiling_ms  bigint,
    backoff_exponent    double precision,
    tick                timestamptz,
    previous_tick       timestamptz,
    max_attempts        integer,
    concurrency         integer,
    label               text,
    key                 text collate "C",
    concurrency_key     text collate "C",
    rule                text collate "C",
    tags                text[] collate "C",
    traceparent         text collate "C",
    primary key (id)
) partition by range (id);
comment on table deferred.__deferred is
    'the calls as they were deferred; rows are added and, long after, purged, never changed but '
    'for the params of a message its holder replaces, and for the lock of deferred.retry()';
comment on column deferred.__deferred.id is 'job id';
comment on column deferred.__deferred.queue is 'queue it was deferred to';
comment on column deferred.__deferred.fn is
    'function to call, 1 to 127 characters; NULL: a plain message for a consumer';
comment on column deferred.__deferred.params is 'argument of the call, kept byte for byte';
comment on column deferred.__deferred.label is 'text for people, at most 1000 characters';
comment on column deferred.__deferred.key is
    'at most one hot job of a queue that the same role deferred has this key; 1 to 1000 '
    'characters, at most 2500 bytes';
comment on column deferred.__deferred.priority is 'larger is taken earlier';
comment on column deferred.__deferred.run_at is 'not to be run before; NULL: at once';
comment on column deferred.__deferred.expires_at is 'not to be started after; NULL: never expires';
comment on column deferred.__deferred.max_attempts is
    'attempts before the job is dead; NULL: default of the function or the worker';
comment on column deferred.__deferred.timeout_ms is
    'limit of one attempt, milliseconds; NULL: default of the function or the worker';
comment on column deferred.__deferred.backoff_floor_ms is
    'delay after the first failed attempt, milliseconds; NULL: default of the worker';
comment on column deferred.__deferred.backoff_ceiling_ms is
    'longest delay, milliseconds; NULL: default of the worker';
comment on column deferred.__deferred.backoff_exponent is
    'factor from one delay to the next, 1 to 100; NULL: default of the worker';
comment on column deferred.__deferred.created_at is 'when it was deferred (database clock)';
comment on column deferred.__deferred.created_by is
    'login role, or role taken by SET ROLE, that deferred it';
comment on column deferred.__deferred.concurrency_key is
    'of all hot jobs of the queue with this key that the same role deferred at most so many run '
    'at once; 1 to 1000 characters';
comment on column deferred.__deferred.concurrency is
    'how many, 1 to 10000; NULL: 1, and then strictly one after the other in the order of their '
    'ids';
comment on column deferred.__deferred.rule is
    'name of the rule that made it; NULL: somebody deferred it';
comment on column deferred.__deferred.tags is
    'words to find it by, each once: 1 to 32 of 1 to 100 characters; NULL: none';
comment on column deferred.__deferred.previous_tick is
    'tick before that which became a job; NULL: none did';
comment on column deferred.__deferred.tick is
    'moment that the rule of its schedule names, or when the schedule was run by hand; NULL: no '
    'schedule made it';
comment on column deferred.__deferred.traceparent is
    'W3C trace context that it was deferred in, 55 characters; NULL: none was given';

-- Of a job without tags an insert looks at this index and leaves it. What is added goes to its
-- place at once: a list of what is pending would be read by each search, and be put in order at the
-- cost of whoever defers when it is full.
create index __deferred_tags on deferred.__deferred using gin (tags) with (fastupdate = off)
    where tags is not null;
grant select (id, tags) on deferred.__deferred to deferred_viewer;

-- The net: a row that no partition takes lands here and is moved by deferred.maintain().
create table deferred.__deferred_default partition of deferred.__deferred default;

create table deferred.__deferred_hot (
    id              bigint not null primary key,
    xid             xid8 not null default pg_current_xact_id(),
    visible_at      timestamptz not null,
    attempt         integer not null default 0,
    priority        smallint not null default 0,
    limited         boolean not null default false,
    bounded         boolean not null default false,
    unknown         boolean not null default false,
    queue           text collate "C" not null,
    fn              text collate "C",
    due_at          timestamptz,
    receipt         bigint,
    worker          bigint,
    started_at      timestamptz,
    expires_at      timestamptz,
    put_receipt     bigint,
    attempt_base    integer,
    concurrency     integer,
    max_attempts    integer,
    params_bytes    integer,
    watched         boolean,
    suspect         boolean,
    key             text collate "C",
    concurrency_key text collate "C"
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_hot is
    'jobs still to be run; the row goes when there is nothing more to do';
comment on column deferred.__deferred_hot.id is 'job id, as in __deferred';
comment on column deferred.__deferred_hot.queue is 'copied from __deferred';
comment on column deferred.__deferred_hot.fn is 'copied from __deferred';
comment on column deferred.__deferred_hot.priority is 'copied from __deferred';
comment on column deferred.__deferred_hot.xid is
    'arrival position: the transaction that made the job ready, the first or the next time; a '
    'lease made before it does not hold the job';
comment on column deferred.__deferred_hot.due_at is
    'delayed until, for a message also hidden until; NULL: ready or claimed';
comment on column deferred.__deferred_hot.visible_at is
    'ready since, or while delayed = due_at, or of a message that is taken the end of the lease';
comment on column deferred.__deferred_hot.attempt is
    'attempts that have ended, of a message those in progress included';
comment on column deferred.__deferred_hot.attempt_base is
    'attempts that do not count against the limit: those before the last retry by hand, and those '
    'that were interrupted; NULL: none';
comment on column deferred.__deferred_hot.receipt is
    'of a message: token of who took it; of a limited call that is claimed: that of its lease; '
    'else NULL';
comment on column deferred.__deferred_hot.worker is
    'of a limited call that is claimed: worker that holds it';
comment on column deferred.__deferred_hot.started_at is 'when a message was taken';
comment on column deferred.__deferred_hot.expires_at is 'copied from __deferred';
comment on column deferred.__deferred_hot.key is
    'key and created_by of __deferred in one: deferred.__own_key(); no two roles meet';
comment on column deferred.__deferred_hot.limited is
    'true: claimed by deferred.__claim_limited() only';
comment on column deferred.__deferred_hot.suspect is
    'true: was in a batch whose worker died, and may be why; it is claimed alone until an attempt '
    'has ended; NULL: false';
comment on column deferred.__deferred_hot.bounded is 'true: counts for max_length of its queue';
comment on column deferred.__deferred_hot.unknown is
    'true: no worker has its function, and no claim looks at it until one says that it has: '
    'deferred.__offer()';
comment on column deferred.__deferred_hot.concurrency_key is 'as key, of concurrency_key';
comment on column deferred.__deferred_hot.concurrency is 'copied from __deferred';
comment on column deferred.__deferred_hot.watched is
    'true: another job waits for it, and is told of its end by __deferred_ended; else nobody '
    'does: false: it has waited for others itself; NULL: for none';
comment on column deferred.__deferred_hot.max_attempts is
    'copied from __deferred, for the claim; NULL: as its queue or the worker has it';
comment on column deferred.__deferred_hot.params_bytes is
    'bytes of its params, for the claim: deferred.__params_bytes(); NULL: 1,024 or fewer';
comment on column deferred.__deferred_hot.put_receipt is
    'token that a message was put with; good while it was never taken (attempt 0, no receipt)';

-- The lanes: sql/functions/claim/__claim.sql.
create index __deferred_hot_ready on deferred.__deferred_hot (queue, priority, xid, id)
    where due_at is null and not limited and fn is not null;
create index __deferred_hot_delayed on deferred.__deferred_hot (due_at)
    where due_at is not null and fn is not null;
-- Jobs of a queue with a max_length are counted by it too: each index that a row is not in costs
-- its insert as much as half of one it is in.
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

create table deferred.__deferred_log (
    job_id      bigint not null,
    finished_at timestamptz not null default clock_timestamp(),
    started_at  timestamptz,
    worker      bigint,
    receipt     bigint,
    attempt     integer not null,
    wait_us     real,
    run_us      real,
    user_us     real,
    sys_us      real,
    max_rss_kb  real,
    final       boolean not null,
    outcome     text collate "C" not null check (outcome in
                ('ok', 'failed', 'crashed', 'timeout', 'interrupted', 'superseded', 'lost',
                 'cancelled', 'expired', 'snoozed')),
    plugin      text,
    exit_code   integer,
    signal      integer,
    error       text,
    result      text
) partition by range (finished_at);
comment on table  deferred.__deferred_log is
    'one row an attempt; rows are added and, long after, purged, never changed';
comment on column deferred.__deferred_log.job_id is 'id of the job';
comment on column deferred.__deferred_log.attempt is
    'number of the attempt from 1; 0: the job ended while nobody ran it';
comment on column deferred.__deferred_log.outcome is 'how the attempt ended';
comment on column deferred.__deferred_log.final is
    'true: the job left __deferred_hot with this row';
comment on column deferred.__deferred_log.error is 'what went wrong, for people';
comment on column deferred.__deferred_log.exit_code is
    'exit status, where a process ended by itself';
comment on column deferred.__deferred_log.signal is 'signal that ended the process';
comment on column deferred.__deferred_log.started_at is 'start of the attempt (database clock)';
comment on column deferred.__deferred_log.finished_at is 'end of the attempt (database clock)';
comment on column deferred.__deferred_log.worker is
    'worker that made the attempt: __deferred_worker.id; NULL: a consumer';
comment on column deferred.__deferred_log.receipt is
    'receipt of the claim, by which a worker that lost the answer finds its own row';
comment on column deferred.__deferred_log.plugin is 'plugin, version and build that ran it';
comment on column deferred.__deferred_log.wait_us is
    'from ready to started, microseconds; this and the four that follow are exact below '
    '16,777,216, above to seven digits';
comment on column deferred.__deferred_log.run_us is 'from started to finished, microseconds';
comment on column deferred.__deferred_log.user_us is 'CPU time in user mode, microseconds';
comment on column deferred.__deferred_log.sys_us is 'CPU time in the kernel, microseconds';
comment on column deferred.__deferred_log.max_rss_kb is
    'largest resident memory of the process so far, KiB';
comment on column deferred.__deferred_log.result is
    'text handed back by the function, at most 8 KiB';

create index __deferred_log_job on deferred.__deferred_log (job_id);
-- Jobs that ended without success, newest first, for people; the many that end well never touch it.
create index __deferred_log_ended on deferred.__deferred_log (finished_at)
    where final and outcome <> 'ok';
-- By time, for folding: it costs a row nothing that could be measured. Freed pages are filled
-- again, so the newest rows do not lie at the end.
create index __deferred_log_finished on deferred.__deferred_log
    using brin (finished_at) with (pages_per_range = 32);
create table deferred.__deferred_log_default partition of deferred.__deferred_log default;

create table deferred.__deferred_worker (
    id         bigint generated always as identity primary key,
    instance   text not null,
    host       text not null,
    pid        integer not null,
    version    text not null,
    started_at deferred.__moment not null default clock_timestamp(),
    seen_at    deferred.__moment not null default clock_timestamp(),
    ended_at   deferred.__moment,
    queues     text[],
    watch      integer,
    cnt        integer,
    runners    integer,
    mode       text check (mode in ('run', 'loop', 'listen')),
    role       name not null default current_user,
    -- One that seems to live for ever would hide that no worker does.
    check (greatest(started_at, seen_at, ended_at) < clock_timestamp() + interval '1 day')
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_worker is
    'runs of check_deferred that had work, one row each';
comment on column deferred.__deferred_worker.id is 'worker id';
comment on column deferred.__deferred_worker.instance is
    'host, pidfile, its device and inode, boot: two runs of one instance never overlap';
comment on column deferred.__deferred_worker.host is 'host name';
comment on column deferred.__deferred_worker.pid is 'process id on that host';
comment on column deferred.__deferred_worker.version is 'version of the program';
comment on column deferred.__deferred_worker.started_at is 'when it registered';
comment on column deferred.__deferred_worker.seen_at is
    'when it started, ended, or said last that it lives: a service does so every 30 s';
comment on column deferred.__deferred_worker.ended_at is
    'when it ended, or was found dead; NULL: taken to be alive';
comment on column deferred.__deferred_worker.queues is 'queues it serves; NULL: all';
comment on column deferred.__deferred_worker.watch is
    'its session holds the advisory lock (1145390673, watch), by which others see that it lives; '
    'NULL: it holds none, behind a pooler';
comment on column deferred.__deferred_worker.cnt is
    'attempts it makes at most; 0: until nothing is ready, or for ever; as it was when it '
    'registered';
comment on column deferred.__deferred_worker.runners is
    'child processes that run functions, at most; as it was when it registered';
comment on column deferred.__deferred_worker.role is
    'role by whose rights it claims; a worker cannot set it';
comment on column deferred.__deferred_worker.mode is
    'run: one of cron; loop: a service that sleeps when nothing is ready; listen: one that is '
    'woken';
create index __deferred_worker_alive on deferred.__deferred_worker (instance)
    where ended_at is null;

-- Told by a run that had work, where it differs from what stands here or that is an hour old;
-- deferred.maintain() deletes old rows.
create table deferred.__deferred_offer (
    host         text not null,
    place        text not null,
    catalog      bigint not null,
    seen_at      deferred.__moment not null default clock_timestamp(),
    fn           text[] collate "C" not null,
    plugin       text[] not null,
    timeout_ms   bigint[] not null,
    max_attempts integer[] not null,
    primary key (host, place)
);
comment on table  deferred.__deferred_offer is
    'functions that workers have, as they said last: a row for each host and plugin folder';
comment on column deferred.__deferred_offer.host is 'host name';
comment on column deferred.__deferred_offer.place is
    'plugin folder, and config file if that declares commands';
comment on column deferred.__deferred_offer.catalog is 'hash of all that follows seen_at';
comment on column deferred.__deferred_offer.seen_at is
    'when a worker said so last (database clock)';
comment on column deferred.__deferred_offer.fn is 'names, the qualified ones and aliases included';
comment on column deferred.__deferred_offer.plugin is
    'in step with fn: name, version and build of the plugin; command: declared in the config file';
comment on column deferred.__deferred_offer.timeout_ms is
    'in step with fn: limit of an attempt the function asks for, milliseconds; 0: none';
comment on column deferred.__deferred_offer.max_attempts is
    'in step with fn: attempts the function asks for; 0: says nothing; -1: it is refused, and '
    'plugin says why';
grant select on deferred.__deferred_offer to deferred_worker;
grant select on deferred.__deferred_offer to deferred_viewer;

-- ---------------------------------------------------------------- claims: how they work stands in
-- sql/functions/claim/__claim.sql

create table deferred.__deferred_place (
    queue    text collate "C" not null,
    priority smallint not null,
    seq      bigint not null,
    done     pg_snapshot not null,
    cur      pg_snapshot not null,
    xid      xid8,
    id       bigint not null,
    rest_xid xid8[] not null,
    rest_id  bigint[] not null,
    primary key (queue, priority, seq)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_place is
    'how far the ready jobs of a lane have been handed out; of each lane the row with the highest '
    'seq counts, and is locked by the claim that moves it on';
comment on column deferred.__deferred_place.queue is 'queue of the lane';
comment on column deferred.__deferred_place.priority is 'priority of the lane';
comment on column deferred.__deferred_place.seq is
    'number of the place: a claim adds the next one and deletes the one before';
comment on column deferred.__deferred_place.done is
    'what is visible in this snapshot has been handed out';
comment on column deferred.__deferred_place.cur is
    'what is visible in this one, and not in done, is being handed out';
comment on column deferred.__deferred_place.xid is
    'in the order of (xid, id), up to there; NULL: all of it has been';
comment on column deferred.__deferred_place.id is 'see xid';
comment on column deferred.__deferred_place.rest_xid is
    'jobs passed over, which the next claims hand out first; one whose row has another xid by now '
    'is none of them';
comment on column deferred.__deferred_place.rest_id is 'their ids, in step with rest_xid';

create table deferred.__deferred_lease (
    queue      text collate "C" not null,
    worker     bigint not null,
    receipt    bigint not null,
    ids        bigint[] not null,
    span       int8range not null,
    snap       pg_snapshot not null,
    alone      boolean not null,
    claimed_at deferred.__moment not null default now(),
    expires_at deferred.__moment not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
-- To compress those of 500 jobs takes 5 million instructions, a tenth of what the server does for
-- these jobs; a batch is read by few, and not for long.
alter table deferred.__deferred_lease alter column ids set storage external;
comment on table  deferred.__deferred_lease is
    'calls that workers hold, a batch a row; a job is held while its hot row is there and has an '
    'xid visible in snap';
comment on column deferred.__deferred_lease.queue is 'queue of the jobs';
comment on column deferred.__deferred_lease.worker is 'worker that holds them';
comment on column deferred.__deferred_lease.receipt is 'by which results are accepted; random';
comment on column deferred.__deferred_lease.ids is 'the jobs';
comment on column deferred.__deferred_lease.span is 'from the lowest to the highest of them';
comment on column deferred.__deferred_lease.snap is
    'snapshot in which they were ready: what has been made ready again since is not held any more';
comment on column deferred.__deferred_lease.alone is
    'true: the job has begun if this row is there, so that losing the lease is an attempt';
comment on column deferred.__deferred_lease.claimed_at is 'when they were claimed';
comment on column deferred.__deferred_lease.expires_at is
    'end of the lease: others may take them then';
create index __deferred_lease_receipt on deferred.__deferred_lease (receipt);
create index __deferred_lease_expires on deferred.__deferred_lease (expires_at);
create index __deferred_lease_worker on deferred.__deferred_lease (worker);
create index __deferred_lease_span on deferred.__deferred_lease using gist (span);

create table deferred.__deferred_upkeep (
    repaired_at  timestamptz not null,
    repaired_xid xid8 not null default '0',
    purged_at    timestamptz,
    purged_older interval,
    schedules_at timestamptz not null default '-infinity',
    log_from     timestamptz not null default '-infinity',
    room_until   bigint not null default 0,
    repair_page  bigint not null default 0,
    repair_queue text collate "C" not null default '',
    repair_priority smallint not null default -32768
);
comment on table  deferred.__deferred_upkeep is
    'one row: what maintenance has done that reads much';
comment on column deferred.__deferred_upkeep.repaired_at is
    'when stranded jobs were looked for last: deferred.__repair()';
comment on column deferred.__deferred_upkeep.repaired_xid is
    'transaction that did so; one that this cluster has not given out: a dump was restored';
comment on column deferred.__deferred_upkeep.repair_page is
    'page of __deferred_hot from which on it goes on';
comment on column deferred.__deferred_upkeep.repair_queue is
    'queue of the lane behind which it goes on';
comment on column deferred.__deferred_upkeep.repair_priority is 'priority of that lane';
comment on column deferred.__deferred_upkeep.purged_at is
    'when "deferred purge" ran to its end last; NULL: never';
comment on column deferred.__deferred_upkeep.purged_older is 'what it was told to keep then';
comment on column deferred.__deferred_upkeep.schedules_at is
    'when next ticks were computed anew last: deferred.__schedule_check()';
comment on column deferred.__deferred_upkeep.log_from is
    'purges may have taken attempts that ended before it, and none that ended later';
comment on column deferred.__deferred_upkeep.room_until is
    'once ids have come this far partitions are to be added: deferred.__id_room()';
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
grant select, insert, update, delete on deferred.__deferred_place,
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

create table deferred.__deferred_group (
    name  text primary key check (name ~ '^[A-Za-z0-9_.-]{1,63}$'),
    round bigint not null default 0 check (round >= 0),
    steps integer not null check (steps >= 1)
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_group is
    'groups of workers that are kept level, made by the first worker that names one';
comment on column deferred.__deferred_group.name is 'name of the group';
comment on column deferred.__deferred_group.round is
    'round under way: each live track may make so many steps in it';
comment on column deferred.__deferred_group.steps is
    'steps of that round: the smallest range of the tracks that were live when it began';

create table deferred.__deferred_track (
    worker      bigint primary key,
    group_name  text not null,
    range       integer not null check (range >= 1),
    since       bigint not null,
    round       bigint not null check (round >= since),
    made        integer not null check (made >= 0),
    lease_until timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_track is
    'workers that are in a group and have work: those that the others of the group wait for';
comment on column deferred.__deferred_track.worker is 'worker: __deferred_worker.id';
comment on column deferred.__deferred_track.group_name is 'its group: __deferred_group.name';
comment on column deferred.__deferred_track.range is 'range it was started with';
comment on column deferred.__deferred_track.since is 'round in which it joined';
comment on column deferred.__deferred_track.round is 'round it is in';
comment on column deferred.__deferred_track.made is
    'steps it reported of that round: attempts begun';
comment on column deferred.__deferred_track.lease_until is
    'not reported again by then, it is taken for dead and blocks nobody';
create index __deferred_track_group on deferred.__deferred_track (group_name);
grant select on deferred.__deferred_group, deferred.__deferred_track to deferred_worker,
      deferred_viewer;
grant delete on deferred.__deferred_track to deferred_worker;

create table deferred.__deferred_rule (
    id                   bigint generated always as identity primary key,
    name                 text collate "C" not null unique
        check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'),
    query                text not null,
    fn                   text collate "C" not null,
    params               json not null default '{}',
    key_column           text not null,
    queue                text collate "C" not null default 'default',
    priority             smallint not null default 0,
    opts                 json not null default '{}',
    owner                regrole not null,
    search_path          text not null,
    statement_timeout_ms integer not null check (statement_timeout_ms > 0),
    created_at           timestamptz not null default clock_timestamp(),
    last_run_at          timestamptz,
    last_run_ms          bigint,
    last_run_by          name,
    last_queued          bigint,
    last_skipped         bigint,
    last_failed          bigint,
    last_error           text
);
comment on table  deferred.__deferred_rule is 'stored queries whose rows become jobs';
comment on column deferred.__deferred_rule.id is 'rule id';
comment on column deferred.__deferred_rule.name is 'name it is run by';
comment on column deferred.__deferred_rule.query is 'one SELECT; each row becomes a job';
comment on column deferred.__deferred_rule.fn is 'function of the jobs';
comment on column deferred.__deferred_rule.params is
    'object whose members every job gets, but for those the query has a column for';
comment on column deferred.__deferred_rule.key_column is
    'column whose text is the key of the job, among the jobs of its owner';
comment on column deferred.__deferred_rule.queue is 'queue of the jobs';
comment on column deferred.__deferred_rule.priority is 'priority of the jobs';
comment on column deferred.__deferred_rule.opts is
    'further options of the jobs, as deferred.defer() takes them';
comment on column deferred.__deferred_rule.owner is
    'role that added it; the query runs with its rights, the jobs are its jobs. By oid: a role '
    'made anew by that name is another one';
comment on column deferred.__deferred_rule.search_path is
    'the search_path of its owner when it was added';
comment on column deferred.__deferred_rule.statement_timeout_ms is 'limit of one run, milliseconds';
comment on column deferred.__deferred_rule.created_at is 'when it was added (database clock)';
comment on column deferred.__deferred_rule.last_run_at is
    'when the last run began (database clock)';
comment on column deferred.__deferred_rule.last_run_ms is 'what it took, milliseconds';
comment on column deferred.__deferred_rule.last_run_by is 'login role that ran it';
comment on column deferred.__deferred_rule.last_queued is
    'rows it made jobs of; NULL: it failed as a whole';
comment on column deferred.__deferred_rule.last_skipped is 'rows whose key was hot already';
comment on column deferred.__deferred_rule.last_failed is
    'rows without a key, or beyond a limit of the queue';
comment on column deferred.__deferred_rule.last_error is 'why it failed';

-- ---------------------------------------------------------------- where limits stand

create table deferred.__deferred_function (
    name        text collate "C" primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    max_running integer check (max_running > 0),
    rate        double precision check (rate between 1e-7 and 1e6),
    burst       integer check (burst between 1 and 1000000),
    broken_at   timestamptz,
    own_max_running integer check (own_max_running > 0),
    own_rate    double precision check (own_rate between 1e-7 and 1e6),
    own_burst   integer check (own_burst between 1 and 1000000),
    check (coalesce(max_running, rate) is not null)
);
comment on table  deferred.__deferred_function is
    'functions that have a limit, in whatever queue; one without has no row';
comment on column deferred.__deferred_function.name is 'name of the function';
comment on column deferred.__deferred_function.max_running is
    'attempts at once, all workers together; NULL: no limit';
comment on column deferred.__deferred_function.rate is
    'attempts a second, all workers together; NULL: no limit';
comment on column deferred.__deferred_function.burst is
    'attempts that may start at once after a pause, where there is a rate; NULL: 1';
comment on column deferred.__deferred_function.broken_at is
    'since then the breaker has paused it, whose limits it has: __breaker.sql; NULL: not paused';
comment on column deferred.__deferred_function.own_max_running is
    'while it is paused by the breaker: max_running as it was set';
comment on column deferred.__deferred_function.own_rate is 'the same of rate';
comment on column deferred.__deferred_function.own_burst is 'the same of burst';

create table deferred.__deferred_limit (
    kind      text collate "C" not null check (kind in ('queue', 'function', 'key')),
    queue     text collate "C" not null,
    name      text collate "C" not null,
    running   bigint[] not null default '{}',
    tokens    double precision,
    tokens_at deferred.__moment,
    used_at   deferred.__moment not null default clock_timestamp(),
    primary key (kind, queue, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_limit is
    'where limits stand; a row is locked by the claim that uses it and made by the first one';
comment on column deferred.__deferred_limit.kind is
    'what is limited: a queue, a function or a concurrency key';
comment on column deferred.__deferred_limit.queue is
    'the queue, or that of the key; empty for a function';
comment on column deferred.__deferred_limit.name is
    'the function, or the hash of the key; empty for a queue';
comment on column deferred.__deferred_limit.running is
    'ids of jobs that may be running; one counts while its hot row has a receipt';
comment on column deferred.__deferred_limit.tokens is
    'attempts that might have started at tokens_at; NULL: as many as burst says';
comment on column deferred.__deferred_limit.tokens_at is 'when tokens was counted (database clock)';
comment on column deferred.__deferred_limit.used_at is
    'last claim, or last look by deferred.maintain(), which removes rows of keys no hot job has';
grant select on deferred.__deferred_function to deferred_worker, deferred_viewer;
-- a claim that meets an unmarked job
grant select, insert on deferred.__deferred_limited to deferred_worker;
grant select on deferred.__deferred_limited to deferred_viewer;
grant select, insert, update on deferred.__deferred_limit to deferred_worker;
grant select on deferred.__deferred_limit to deferred_viewer;

create table deferred.__deferred_limit_guard (
    n integer primary key
);
comment on table  deferred.__deferred_limit_guard is
    'locked by a claim that adds rows to __deferred_limit; advisory locks would be open to '
    'anybody who can connect';
comment on column deferred.__deferred_limit_guard.n is
    'hash of the row to be added; from 1024 on of the lane, by claims that wait for it or add its '
    'first place';
insert into deferred.__deferred_limit_guard select generate_series(0, 2047);
grant select, update on deferred.__deferred_limit_guard to deferred_worker;
grant select (limited, unknown, concurrency_key) on deferred.__deferred_hot to deferred_viewer;

create table deferred.__deferred_progress (
    job_id      bigint primary key,
    attempt     integer not null,
    done        bigint,
    total       bigint,
    text        text,
    reported_at deferred.__moment not null
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_progress is
    'how far attempts in progress are, for those functions that say so; of use only while a hot '
    'row with that attempt is claimed';
comment on column deferred.__deferred_progress.job_id is 'id of the job';
comment on column deferred.__deferred_progress.attempt is 'number of the attempt that reported';
comment on column deferred.__deferred_progress.done is
    'so much is done, in units of the function; NULL: not told';
comment on column deferred.__deferred_progress.total is
    'so much is to be done in all; NULL: not known';
comment on column deferred.__deferred_progress.text is 'what it is at, for people';
comment on column deferred.__deferred_progress.reported_at is
    'when the function said so (database clock)';
grant select, insert, update, delete on deferred.__deferred_progress to deferred_worker;
grant select on deferred.__deferred_progress to deferred_viewer;
-- maintain.sql
grant select (job_id, attempt, reported_at), delete
    on deferred.__deferred_progress to deferred_purger;
grant select (id, attempt) on deferred.__deferred_hot to deferred_purger;

-- ---------------------------------------------------------------- tables

create table deferred.__deferred_account (
    name          text collate "C" primary key check (name ~ '^[a-z0-9]{3,24}$'),
    enabled       boolean not null default true,
    key1          bytea not null,
    key2          bytea not null,
    properties    json,
    functions     text[] collate "C" not null default '{}',
    created_at    timestamptz not null default clock_timestamp(),
    key1_since    timestamptz not null default clock_timestamp(),
    key2_since    timestamptz not null default clock_timestamp()
);
comment on table  deferred.__deferred_account is
    'accounts of the HTTP front; the queues of an account are those whose names begin with its '
    'name and a dot';
comment on column deferred.__deferred_account.name is
    'name of the account, 3 to 24 lower-case letters and digits';
comment on column deferred.__deferred_account.enabled is 'false: every request is refused';
comment on column deferred.__deferred_account.key1 is
    'first key, encrypted: lib/program/account_key.h';
comment on column deferred.__deferred_account.key2 is 'second key, encrypted';
comment on column deferred.__deferred_account.properties is 'service properties, as they were set';
comment on column deferred.__deferred_account.functions is
    'functions that its messages may become calls of, each by its name or, as PREFIX.*, by how it '
    'begins';
comment on column deferred.__deferred_account.created_at is 'when it was added (database clock)';
comment on column deferred.__deferred_account.key1_since is 'when the first key was made';
comment on column deferred.__deferred_account.key2_since is 'when the second key was made';
grant usage on schema deferred to deferred_http;
grant select on deferred.__deferred_migration to deferred_http;

-- ---------------------------------------------------------------- `deferred why` and `deferred
-- top`, by a viewer: no params, results, errors, receipts

grant select on deferred.__deferred_upkeep, deferred.__deferred_place,
      deferred.__deferred_id_seq to deferred_viewer;
grant select on deferred.__deferred_id_seq to deferred_worker;
grant select (xmax, attempt_base, concurrency) on deferred.__deferred_hot to deferred_viewer;

-- ---------------------------------------------------------------- figures: sums of the log, kept
-- by deferred.__fold()

create table deferred.__deferred_series (
    id     integer generated always as identity primary key,
    queue  text collate "C" not null,
    fn     text collate "C" not null,
    plugin text collate "C" not null,
    unique (queue, fn, plugin)
);
comment on table  deferred.__deferred_series is
    'of what there are sums: of all, each queue, each function, and each queue, function and '
    'build; made by deferred.__fold()';
comment on column deferred.__deferred_series.id is
    'number of the series; from 20,000 on what is new is put into that of function + and no plugin';
comment on column deferred.__deferred_series.queue is 'queue; *: summed over all';
comment on column deferred.__deferred_series.fn is
    'function; *: summed over all; empty: messages; +: those for which there was no room';
comment on column deferred.__deferred_series.plugin is
    'plugin, version and build; *: summed over all; empty: nobody ran it';

create table deferred.__deferred_sum (
    span        smallint not null,
    at          timestamptz not null,
    series      integer not null,
    ok          bigint not null,
    failed      bigint not null,
    crashed     bigint not null,
    timeout     bigint not null,
    interrupted bigint not null,
    superseded  bigint not null,
    lost        bigint not null,
    cancelled   bigint not null,
    expired     bigint not null,
    snoozed     bigint not null,
    dead        bigint not null,
    arrived     bigint not null,
    wait_us     bigint not null,
    run_us      bigint not null,
    cpu_us      bigint not null,
    max_rss_kb  bigint not null,
    wait        bigint[] not null,
    run         bigint[] not null,
    primary key (span, series, at)
) partition by list (span);
create table deferred.__deferred_total partition of deferred.__deferred_sum
    for values in (0) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
create table deferred.__deferred_minute partition of deferred.__deferred_sum
    for values in (1) with (autovacuum_vacuum_cost_delay = 0);
create table deferred.__deferred_hour partition of deferred.__deferred_sum
    for values in (60) with (autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_sum is
    'sums of the log and of what was deferred, which deferred.__fold() keeps and could make '
    'again: by minute for 8 days, by hour for 400 days, and since ever';
comment on column deferred.__deferred_sum.span is '1: of a minute; 60: of an hour; 0: since ever';
comment on column deferred.__deferred_sum.at is
    'begin of the minute or hour in which attempts ended and jobs were deferred; -infinity: since '
    'ever';
comment on column deferred.__deferred_sum.series is 'of what: __deferred_series.id';
comment on column deferred.__deferred_sum.ok is 'attempts that ended so';
comment on column deferred.__deferred_sum.failed is 'attempts that ended so';
comment on column deferred.__deferred_sum.crashed is 'attempts that ended so';
comment on column deferred.__deferred_sum.timeout is 'attempts that ended so';
comment on column deferred.__deferred_sum.interrupted is 'attempts that ended so';
comment on column deferred.__deferred_sum.superseded is 'attempts that ended so';
comment on column deferred.__deferred_sum.lost is 'attempts that ended so';
comment on column deferred.__deferred_sum.cancelled is 'attempts that ended so';
comment on column deferred.__deferred_sum.expired is 'attempts that ended so';
comment on column deferred.__deferred_sum.snoozed is 'attempts that ended so';
comment on column deferred.__deferred_sum.dead is 'attempts with which a job died';
comment on column deferred.__deferred_sum.arrived is
    'jobs deferred; in the series without a plugin';
comment on column deferred.__deferred_sum.wait_us is 'sum of wait_us of the log';
comment on column deferred.__deferred_sum.run_us is 'sum of run_us of the log';
comment on column deferred.__deferred_sum.cpu_us is 'sum of user_us and sys_us of the log';
comment on column deferred.__deferred_sum.max_rss_kb is 'largest max_rss_kb of the log';
comment on column deferred.__deferred_sum.wait is
    'how long they waited: {bucket, attempts} for each bucket in use, deferred.__bucket()';
comment on column deferred.__deferred_sum.run is 'how long they ran, as wait';

create table deferred.__deferred_caller (
    fn         text collate "C" not null,
    creator    text collate "C" not null,
    crashed_at timestamptz,
    other_at   timestamptz,
    primary key (fn, creator)
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_caller is
    'roles whose jobs of a function had attempts in the last 7 days; deferred.__breaker() reads it';
comment on column deferred.__deferred_caller.fn is 'function';
comment on column deferred.__deferred_caller.creator is 'role that deferred the jobs';
comment on column deferred.__deferred_caller.crashed_at is
    'minute of the last attempt that crashed; NULL: none did';
comment on column deferred.__deferred_caller.other_at is
    'minute of the last attempt that ended in another way; NULL: none did';

create table deferred.__deferred_crash (
    fn    text collate "C" primary key,
    n     bigint not null,
    since timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_crash is
    'functions of which attempts crashed lately: deferred.__crashed()';
comment on column deferred.__deferred_crash.fn is 'function';
comment on column deferred.__deferred_crash.n is
    'how many attempts crashed; those before its last success count at first, too';
comment on column deferred.__deferred_crash.since is 'the first of them ended after that';

create table deferred.__deferred_depth (
    at       timestamptz not null,
    queue    text collate "C" not null,
    ready    bigint not null,
    delayed  bigint not null,
    claimed  bigint not null,
    more     boolean not null,
    oldest_s bigint,
    paused   boolean not null,
    primary key (queue, at)
);
comment on table  deferred.__deferred_depth is
    'how much lay in the queues, a sample a minute, kept for 8 days';
comment on column deferred.__deferred_depth.at is 'when it was taken (database clock)';
comment on column deferred.__deferred_depth.queue is 'queue';
comment on column deferred.__deferred_depth.ready is 'jobs ready, of 1,000 looked at';
comment on column deferred.__deferred_depth.delayed is 'jobs delayed, the same';
comment on column deferred.__deferred_depth.claimed is 'jobs claimed, the same';
comment on column deferred.__deferred_depth.more is 'there were more';
comment on column deferred.__deferred_depth.oldest_s is
    'seconds the longest waiting of them had been ready; NULL: none was';
comment on column deferred.__deferred_depth.paused is 'the queue was paused';

create table deferred.__deferred_folded (
    folded_to  timestamptz not null,
    exact_to   timestamptz not null,
    id_to      bigint not null,
    slice      interval not null,
    sampled_at timestamptz not null
) with (fillfactor = 10, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_folded is
    'one row: how far the log has been folded; locked by who folds';
comment on column deferred.__deferred_folded.folded_to is
    'attempts that ended before that have been summed, but for those recorded later';
comment on column deferred.__deferred_folded.exact_to is
    'those that ended before that have been compared with the log again';
comment on column deferred.__deferred_folded.id_to is
    'jobs up to this id have been counted as deferred';
comment on column deferred.__deferred_folded.slice is
    'so much of the log is folded in one transaction: shorter where there is much';
comment on column deferred.__deferred_folded.sampled_at is
    'when the depth of the queues was looked at last';
insert into deferred.__deferred_folded
values (now(), date_bin('1 minute', now(), '2000-01-01 00:00+00'), 0, '1 minute', '-infinity');

grant select on deferred.__deferred_series, deferred.__deferred_sum, deferred.__deferred_depth,
      deferred.__deferred_folded to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- operators: deferred_web

create table deferred.__deferred_action (
    id      bigint generated always as identity primary key,
    at      timestamptz not null default clock_timestamp(),
    who     text not null,
    role    text collate "C" not null,
    login   text collate "C" not null,
    address text,
    verb    text not null,
    job_id  bigint,
    queue   text collate "C",
    fn      text collate "C",
    schedule text collate "C",
    settings json,
    refused text,
    filter  json,
    jobs    bigint,
    flow    bigint
);
comment on table  deferred.__deferred_action is
    'what operators did by deferred_web and commands, what pages refused them, and who released a '
    'job that waited; kept until somebody deletes it';
comment on column deferred.__deferred_action.id is 'number of the action';
comment on column deferred.__deferred_action.at is 'when (database clock)';
comment on column deferred.__deferred_action.who is
    'who did it, as the page knew them, or the user of a machine and his command: the word of '
    'whoever called';
comment on column deferred.__deferred_action.role is 'role of the database that acted';
comment on column deferred.__deferred_action.login is
    'login of the session that acted, which the database knows';
comment on column deferred.__deferred_action.address is
    'address they came from, the word of whoever called; NULL: a socket of this machine';
comment on column deferred.__deferred_action.verb is
    'retry, run, cancel, pause, resume, set, clear, remove, defer or release';
comment on column deferred.__deferred_action.job_id is
    'job it was done to, or that was deferred; one of these four or flow is not NULL, or there is '
    'a filter';
comment on column deferred.__deferred_action.queue is 'queue it was done to';
comment on column deferred.__deferred_action.fn is
    'function it was done to, or of which a job was to be deferred';
comment on column deferred.__deferred_action.schedule is 'schedule it was done to';
comment on column deferred.__deferred_action.settings is
    'what was set, or the options of what was deferred, as they were given; NULL: nothing';
comment on column deferred.__deferred_action.refused is 'why it was not done; NULL: it was';
comment on column deferred.__deferred_action.filter is
    'of what was done to many jobs at once: which these were; a step of 1,000 is a row; NULL: it '
    'was done to one thing';
comment on column deferred.__deferred_action.jobs is
    'and to how many it was done; of what takes several steps each has a row';
comment on column deferred.__deferred_action.flow is
    'flow it was done to; what takes several steps has a row for each';
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

create type deferred.__cron as (
    every_us bigint,
    minutes  bigint,
    hours    integer,
    days     bigint,
    months   integer,
    weekdays integer,
    nth      bigint,
    both_days boolean,
    fixed    boolean
);
comment on type deferred.__cron is 'a time rule, read: deferred.__cron_parse()';
comment on column deferred.__cron.every_us is
    'microseconds from tick to tick, counted from 1970; NULL: the other columns say';
comment on column deferred.__cron.minutes is 'bit n: minute n';
comment on column deferred.__cron.hours is 'bit n: hour n';
comment on column deferred.__cron.days is 'bit n: day n of the month, bit 32: the last one';
comment on column deferred.__cron.months is 'bit n: month n';
comment on column deferred.__cron.weekdays is 'bit n: weekday n, 0 is Sunday';
comment on column deferred.__cron.nth is
    'bit 8 * weekday + n: the nth such weekday of the month, n = 6: the last one';
comment on column deferred.__cron.both_days is
    'true: day and weekday must both match; false: one will do';
comment on column deferred.__cron.fixed is
    'true: neither minute nor hour begins with *, and changes of clocks neither skip nor repeat a '
    'tick';

create table deferred.__deferred_schedule (
    id         bigint generated always as identity primary key,
    name       text collate "C" not null unique check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'),
    rule       text not null,
    cron       deferred.__cron not null,
    zone       text not null,
    fn         text collate "C" not null,
    params     json not null default '{}',
    queue      text collate "C" not null default 'default',
    opts       json not null default '{}',
    missed     text not null default 'one' check (missed in ('one', 'all', 'skip')),
    late_ms    bigint not null default 300000 check (late_ms > 0),
    overlap    text not null default 'skip' check (overlap in ('skip', 'queue', 'allow',
        'replace')),
    jitter_ms  bigint not null default 0 check (jitter_ms >= 0),
    paused     boolean not null default false,
    next_at    timestamptz,
    tried_at   timestamptz,
    last_at    timestamptz,
    last_what  text,
    queued_at  timestamptz,
    last_job   bigint,
    last_error text,
    owner      regrole not null,
    source     text,
    created_at timestamptz not null default clock_timestamp(),
    changed_at timestamptz not null default clock_timestamp(),
    checked_at timestamptz not null default clock_timestamp(),
    check (paused is false or next_at is null)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_schedule is
    'recurring jobs: a call and the times at which it is deferred';
comment on column deferred.__deferred_schedule.id is 'schedule id';
comment on column deferred.__deferred_schedule.name is 'name of the schedule';
comment on column deferred.__deferred_schedule.rule is
    'when, as it was given: five fields as in crontab(5), a word such as @daily, or every SPAN';
comment on column deferred.__deferred_schedule.cron is 'the rule, read';
comment on column deferred.__deferred_schedule.zone is
    'time zone by which the rule is read: a name of pg_timezone_names';
comment on column deferred.__deferred_schedule.fn is 'function of the jobs';
comment on column deferred.__deferred_schedule.params is 'argument of the calls';
comment on column deferred.__deferred_schedule.queue is 'queue of the jobs';
comment on column deferred.__deferred_schedule.opts is
    'further options of the jobs, as deferred.defer() takes them';
comment on column deferred.__deferred_schedule.missed is
    'ticks that nobody looked at in time: one job for the latest, all, or skip';
comment on column deferred.__deferred_schedule.late_ms is
    'where missed ticks are skipped: one that is late by less is not missed, milliseconds';
comment on column deferred.__deferred_schedule.overlap is
    'while the job of the last tick is hot: skip the tick, queue one behind it, allow both, or '
    'replace it';
comment on column deferred.__deferred_schedule.jitter_ms is
    'the job is due up to so many milliseconds after its tick';
comment on column deferred.__deferred_schedule.paused is 'true: no ticks';
comment on column deferred.__deferred_schedule.next_at is
    'next tick; NULL: paused, or there is none any more';
comment on column deferred.__deferred_schedule.tried_at is
    'when somebody''s lock kept a tick from being dealt with; equal to next_at: that is no tick, '
    'but another look at a schedule whose rule could not be read; NULL: neither';
comment on column deferred.__deferred_schedule.last_at is 'tick dealt with last';
comment on column deferred.__deferred_schedule.last_what is
    'what came of it: as __deferred_tick.what';
comment on column deferred.__deferred_schedule.queued_at is 'last tick that became a job';
comment on column deferred.__deferred_schedule.last_job is 'that job';
comment on column deferred.__deferred_schedule.last_error is
    'why the last tick did not become a job; NULL: it did';
comment on column deferred.__deferred_schedule.owner is
    'role that set it; the jobs are its jobs. By oid: a role made anew by that name is another one';
comment on column deferred.__deferred_schedule.source is 'file it comes from; NULL: set by hand';
comment on column deferred.__deferred_schedule.created_at is
    'when it was set first (database clock)';
comment on column deferred.__deferred_schedule.changed_at is 'when it was changed last';
comment on column deferred.__deferred_schedule.checked_at is
    'when next_at was computed anew last, for clocks that jumped and time zones that changed: '
    'deferred.__schedule_check()';
create index __deferred_schedule_next on deferred.__deferred_schedule (next_at)
    where next_at is not null;
create index __deferred_schedule_owner on deferred.__deferred_schedule (owner);

create table deferred.__deferred_tick (
    schedule bigint not null references deferred.__deferred_schedule on delete cascade,
    tick     timestamptz not null,
    what     text not null check (what in ('queued', 'overlap', 'missed', 'failed', 'by hand')),
    job_id   bigint,
    previous timestamptz,
    at       timestamptz not null default clock_timestamp(),
    primary key (schedule, tick)
);
comment on table  deferred.__deferred_tick is
    'ticks that were dealt with: that there is one row at most for each is why none becomes two '
    'jobs';
comment on column deferred.__deferred_tick.schedule is 'schedule: __deferred_schedule.id';
comment on column deferred.__deferred_tick.tick is
    'the moment that the rule names; of a run by hand when that was';
comment on column deferred.__deferred_tick.what is
    'what came of it: queued, no job for overlap, missed, failed, or run by hand';
comment on column deferred.__deferred_tick.job_id is 'its job; NULL: none';
comment on column deferred.__deferred_tick.previous is
    'tick before it that became a job; NULL: none did';
comment on column deferred.__deferred_tick.at is 'when it was dealt with (database clock)';
create index __deferred_tick_job on deferred.__deferred_tick (job_id) where job_id is not null;
create index __deferred_tick_at on deferred.__deferred_tick (at);

-- What a start asks first, in one row, as each further table in that look costs it half a
-- millisecond.
create table deferred.__deferred_state (
    version   integer,
    next_tick timestamptz not null
) with (fillfactor = 10, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_state is
    'what a start asks first: one row with a version, and notes of schedules that were set since: '
    'deferred.__schedule_moved()';
comment on column deferred.__deferred_state.version is
    'schema version, as __deferred_migration has it; NULL: a note';
comment on column deferred.__deferred_state.next_tick is
    'no schedule has a tick before the least of these; infinity: none has one';
insert into deferred.__deferred_state values (0, 'infinity');

grant select on deferred.__deferred_state to deferred_producer, deferred_worker, deferred_viewer,
      deferred_purger;
grant select on deferred.__deferred_schedule to deferred_worker;

-- ---------------------------------------------------------------- jobs that wait for jobs: how
-- they work stands in sql/functions/flow/__settle.sql

create table deferred.__deferred_edge (
    child  bigint not null,
    parent bigint not null check (parent < child),
    kind   "char" not null check (kind in ('o', 'f', 'e', 'O', 'F')),
    what   "char" check (what in ('o', 'f', 's', 'n')),
    name   text collate "C",
    primary key (child, parent)
) with (fillfactor = 80, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_edge is 'who waits for whom; kept until the child is purged';
comment on column deferred.__deferred_edge.child is 'job that waits';
comment on column deferred.__deferred_edge.parent is
    'job it waits for. It is older: so nobody waits for himself, by whatever way round';
comment on column deferred.__deferred_edge.kind is
    'met when the parent has ended o: well, f: in failure, e: in whatever way. Of a callback, '
    'which waits for all jobs of its flow, O: wants none to have failed, F: wants one to have';
comment on column deferred.__deferred_edge.what is
    'how the parent ended, o: well, f: in failure; it never ran, s: for something failed, n: for '
    'it was not needed; NULL: that is not counted yet';
comment on column deferred.__deferred_edge.name is
    'what the job calls this parent; NULL: by its number';
create index __deferred_edge_parent on deferred.__deferred_edge (parent, child);

create table deferred.__deferred_wait (
    id     bigint primary key,
    waits  integer not null,
    unmet  bigint,
    failure bigint,
    due_at timestamptz
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_wait is
    'jobs that wait; locked by deferred.__settle(), in the order of their ids, and by '
    'deferred.flow_retry() while none of those is under way';
comment on column deferred.__deferred_wait.id is 'the job';
comment on column deferred.__deferred_wait.waits is 'edges of it that are not met';
comment on column deferred.__deferred_wait.unmet is
    'a parent that did not end as it must have; NULL: none yet';
comment on column deferred.__deferred_wait.failure is
    'of a callback that wants a failure: a job that failed or was skipped for a failure, 0: none '
    'yet; NULL: it is none';
comment on column deferred.__deferred_wait.due_at is
    'not to be run before; NULL: when it waits no more';

create table deferred.__deferred_ended (
    n     bigint generated always as identity primary key,
    id    bigint not null,
    what  "char" not null check (what in ('o', 'f', 's', 'n', 'l', 'c', 'z')),
    after bigint not null default 0,
    upto  bigint,
    xid   xid8 not null default pg_catalog.pg_current_xact_id(),
    late  boolean not null default false,
    not_before timestamptz not null default '-infinity'
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_ended is
    'ends of watched jobs, stored with the end itself, until deferred.__settle() has told all who '
    'wait';
comment on column deferred.__deferred_ended.n is 'number of the note';
comment on column deferred.__deferred_ended.id is 'job it is about; of c and z: the flow';
comment on column deferred.__deferred_ended.what is
    'o, f, s or n: it ended so, as __deferred_edge.what; l: a job that waits for jobs which were '
    'there before it, to be looked at; c: a flow one of whose jobs failed, so that the rest is to '
    'be cancelled; z: a closed flow, to be looked at whether it has ended';
comment on column deferred.__deferred_ended.after is 'those who wait up to this id have been told';
comment on column deferred.__deferred_ended.upto is
    'those who wait up to this id are told: others were deferred since, when the job was to be '
    'run again perhaps. Of l: the one parent to be looked at again, 0: the job itself alone; '
    'NULL: all of it. Of c: its jobs between after and upto are left';
comment on column deferred.__deferred_ended.xid is
    'transaction that added the note, whose order is that of the notes: as of __deferred_hot';
comment on column deferred.__deferred_ended.late is
    'true: it was put off, for a row was locked that it is about';
comment on column deferred.__deferred_ended.not_before is 'not to be looked at before';
-- Those at once and those put off, each in order.
create index __deferred_ended_order on deferred.__deferred_ended (late, xid, n);

create table deferred.__deferred_told (
    late boolean not null,
    seq  bigint not null,
    done pg_snapshot not null,
    at   xid8 not null,
    primary key (late, seq)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_told is
    'how far notes of __deferred_ended have been dealt with; of each kind the row with the '
    'highest seq counts';
comment on column deferred.__deferred_told.late is 'of which notes: __deferred_ended.late';
comment on column deferred.__deferred_told.seq is
    'number of the place: who moves on adds the next one and deletes the one before';
comment on column deferred.__deferred_told.done is
    'notes of transactions that are visible in this snapshot';
comment on column deferred.__deferred_told.at is
    '... and come before this one, have been dealt with';
insert into deferred.__deferred_told values (false, 1, '1:1:', '0'), (true, 1, '1:1:', '0');
grant select on deferred.__deferred_told to deferred_worker;
grant select, insert (id, what, upto) on deferred.__deferred_ended to deferred_worker;
grant select on deferred.__deferred_edge, deferred.__deferred_wait to deferred_worker,
      deferred_viewer;

-- ---------------------------------------------------------------- flows: jobs deferred together,
-- sql/functions/flow/defer_flow.sql

create table deferred.__deferred_flow (
    id         bigint primary key,
    label      text collate "C",
    jobs       integer,
    created_at timestamptz not null default clock_timestamp(),
    created_by name not null,
    on_failure text collate "C" not null default 'continue' check (on_failure in ('continue',
        'cancel')),
    failed     bigint,
    retried_at timestamptz,
    opened     boolean not null default false,
    spec       json,
    callbacks  bigint[]
) with (autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_flow is
    'jobs that were deferred together; written again when the first of them has failed, and when '
    'it is retried';
comment on column deferred.__deferred_flow.id is
    'of the sequence that numbers jobs, below those of its jobs';
comment on column deferred.__deferred_flow.label is 'text for people';
comment on column deferred.__deferred_flow.jobs is
    'how many there are, with callbacks; NULL: jobs may be added to it still';
comment on column deferred.__deferred_flow.created_at is 'when it was deferred (database clock)';
comment on column deferred.__deferred_flow.created_by is 'role that deferred it';
comment on column deferred.__deferred_flow.on_failure is
    'cancel: the first job that fails has the rest cancelled; continue: it does not';
comment on column deferred.__deferred_flow.retried_at is
    'when it was last retried: who failed before has nobody cancelled; NULL: never';
comment on column deferred.__deferred_flow.opened is 'true: deferred.flow_open() made it';
comment on column deferred.__deferred_flow.spec is
    'of such a one that has ended: as in __deferred_flow_open';
comment on column deferred.__deferred_flow.callbacks is 'as well';
comment on column deferred.__deferred_flow.failed is
    'the job that failed first, for which the rest is or was cancelled; NULL: none, or nothing is '
    'to be cancelled for it';

create table deferred.__deferred_flow_open (
    flow      bigint primary key,
    spec      json,
    callbacks bigint[],
    closed_at timestamptz,
    cancelled boolean not null default false,
    upto      bigint not null default 0,
    jobs      integer not null default 0,
    waits_for bigint,
    failed    bigint
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_flow_open is
    'flows that were opened and have not ended: sql/functions/flow/__flow_end.sql. Who adds jobs '
    'has the row locked (for key share) before their ids are drawn';
comment on column deferred.__deferred_flow_open.flow is 'the flow';
comment on column deferred.__deferred_flow_open.spec is
    'its callbacks, and their traceparent, as deferred.flow_open() was given them; NULL: none';
comment on column deferred.__deferred_flow_open.callbacks is
    'the jobs they became, in step; NULL: none yet';
comment on column deferred.__deferred_flow_open.closed_at is
    'from then on it ends with the last of its jobs; NULL: it does not yet';
comment on column deferred.__deferred_flow_open.cancelled is
    'true: takes no more jobs, and those that are found are cancelled';
comment on column deferred.__deferred_flow_open.upto is
    'of a closed one: jobs up to this one have ended';
comment on column deferred.__deferred_flow_open.jobs is 'how many those are, without callbacks';
comment on column deferred.__deferred_flow_open.waits_for is
    'the first job behind those, whose end is waited for; NULL: a note (z) is there, or it is not '
    'closed';
comment on column deferred.__deferred_flow_open.failed is
    'the first of those that failed or was skipped for a failure; NULL: none';
create index __deferred_flow_open_waits_for on deferred.__deferred_flow_open (waits_for)
    where waits_for is not null;

create table deferred.__deferred_member (
    flow bigint not null,
    job  bigint not null,
    name text collate "C",
    part "char" check (part in ('s', 't')),
    primary key (flow, job)
) with (autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_member is 'the jobs of flows; kept until they are purged';
comment on column deferred.__deferred_member.flow is 'the flow';
comment on column deferred.__deferred_member.job is 'its job';
comment on column deferred.__deferred_member.name is 'what the flow calls it; NULL: by its number';
comment on column deferred.__deferred_member.part is
    't: a callback; s: it waits for the failure or the end of another one of the flow, and is not '
    'cancelled for the failure of one; NULL: neither';
create unique index __deferred_member_job on deferred.__deferred_member (job);

create table deferred.__deferred_flow_retry (
    n            bigint generated always as identity primary key,
    flow         bigint not null,
    requested_by name not null,
    requested_at timestamptz not null default clock_timestamp(),
    after        bigint not null default 0,
    not_before   timestamptz not null default '-infinity',
    ready        bigint not null default 0,
    waiting      bigint not null default 0,
    refused      bigint not null default 0,
    why          text collate "C",
    ended_at     timestamptz
) with (autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_flow_retry is
    'flows that somebody wants retried; of each flow the last one, and one that has not come to '
    'its end, are kept';
comment on column deferred.__deferred_flow_retry.n is 'in their order';
comment on column deferred.__deferred_flow_retry.flow is
    'the flow; no foreign key, for that would lock its row in the transaction of whoever asks';
comment on column deferred.__deferred_flow_retry.requested_by is 'role that asked for it';
comment on column deferred.__deferred_flow_retry.requested_at is 'when';
comment on column deferred.__deferred_flow_retry.after is
    'jobs up to this one have been gone through';
comment on column deferred.__deferred_flow_retry.not_before is 'it was put off until then';
comment on column deferred.__deferred_flow_retry.ready is 'jobs that are run again';
comment on column deferred.__deferred_flow_retry.waiting is 'jobs that wait again';
comment on column deferred.__deferred_flow_retry.refused is 'jobs that could not be either';
comment on column deferred.__deferred_flow_retry.why is 'why the first of those could not';
comment on column deferred.__deferred_flow_retry.ended_at is
    'when all jobs of the flow had been gone through';
create unique index __deferred_flow_retry_wanted on deferred.__deferred_flow_retry (flow)
    where ended_at is null;
create index __deferred_flow_retry_flow on deferred.__deferred_flow_retry (flow);
grant select on deferred.__deferred_flow, deferred.__deferred_flow_open, deferred.__deferred_member,
      deferred.__deferred_flow_retry to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- being told:
-- sql/functions/alert/__alert.sql

alter table deferred.__deferred_upkeep
    add column breakers_at timestamptz not null default '-infinity',
    add column alerts_at   timestamptz not null default '-infinity',
    add column builds_at   timestamptz not null default '-infinity';
comment on column deferred.__deferred_upkeep.breakers_at is
    'when functions that crash were looked for last: deferred.__breaker()';
comment on column deferred.__deferred_upkeep.alerts_at is
    'when what is to be told was looked for last: deferred.__alert(); -infinity: nobody ever '
    'wanted to be told';
comment on column deferred.__deferred_upkeep.builds_at is
    'when builds of plugins were compared last, for that: once an hour';

create table deferred.__deferred_alert (
    cause    text collate "C" not null check (cause in ('dead', 'late', 'unserved', 'failing',
                                                        'slower', 'bigger', 'breaker', 'absent')),
    name     text collate "C" not null,
    since    timestamptz not null default now(),
    seen_at  timestamptz not null default now(),
    ended_at timestamptz,
    reported_at timestamptz,
    counted  bigint not null default 0,
    text     text not null,
    mend     text not null,
    kind     text collate "C" not null generated always as
             (case when cause in ('late', 'unserved') then 'queue' else cause end) stored,
    primary key (cause, name)
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_alert is
    'what is wrong, or was, and when that was told: a row for each cause and queue, function or '
    'line';
comment on column deferred.__deferred_alert.cause is
    'what is wrong: jobs died; a queue is late, or is late and nobody serves it; a function fails '
    'more than it did, its build is slower or bigger than the one before, or it is paused for its '
    'crashes; a line or a service is missed while others come';
comment on column deferred.__deferred_alert.kind is
    'alerts of one kind share a budget of messages: queue, or the cause';
comment on column deferred.__deferred_alert.name is
    'queue or function; of what is missed host and pidfile';
comment on column deferred.__deferred_alert.since is
    'when it was found, this time (database clock)';
comment on column deferred.__deferred_alert.seen_at is 'when it was found last';
comment on column deferred.__deferred_alert.ended_at is
    'when it was found no more; NULL: it stands';
comment on column deferred.__deferred_alert.reported_at is
    'when it was last reported: jobs that report it were deferred in that transaction; NULL: '
    'never';
comment on column deferred.__deferred_alert.counted is
    'of dead jobs: as many had died, since ever, when that was told';
comment on column deferred.__deferred_alert.text is 'one sentence, for people';
comment on column deferred.__deferred_alert.mend is 'the command that shows more, or mends it';
grant select on deferred.__deferred_alert to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- a function for each dead job:
-- sql/functions/alert/__notice.sql

create table deferred.__deferred_on_dead (
    kind  text collate "C" not null check (kind in ('queue', 'function')),
    name  text collate "C" not null,
    fn    text collate "C" not null check (fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    since timestamptz not null default clock_timestamp(),
    primary key (kind, name)
);
comment on table  deferred.__deferred_on_dead is
    'what is deferred for each job that dies; apart from other settings, so that where none is '
    'nothing is read, and no job has a limit for it';
comment on column deferred.__deferred_on_dead.kind is
    'whose jobs: those of a queue, or of a function, which goes first';
comment on column deferred.__deferred_on_dead.name is 'queue or function';
comment on column deferred.__deferred_on_dead.fn is 'function that is deferred';
comment on column deferred.__deferred_on_dead.since is
    'when it was set first: who died before is not told';

create table deferred.__deferred_noticed (
    job_id      bigint not null,
    attempt     integer not null,
    finished_at timestamptz not null,
    primary key (job_id, attempt)
) with (autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_noticed is
    'deaths for which a job was deferred, written in the same transaction; kept 2 hours behind '
    'the bookmark';
comment on column deferred.__deferred_noticed.job_id is 'job that died';
comment on column deferred.__deferred_noticed.attempt is
    'of which attempt; one that is retried by hand and dies again is another death';
comment on column deferred.__deferred_noticed.finished_at is 'when, as in __deferred_log';
create index __deferred_noticed_finished on deferred.__deferred_noticed (finished_at);

create table deferred.__deferred_notice (
    noticed_to timestamptz not null,
    at         timestamptz not null,
    begun_at   timestamptz
);
comment on table  deferred.__deferred_notice is 'one row, which who looks for deaths has locked';
comment on column deferred.__deferred_notice.noticed_to is
    'bookmark: when the last walk that came to its end had begun';
comment on column deferred.__deferred_notice.at is 'deaths up to then were looked at in this walk';
comment on column deferred.__deferred_notice.begun_at is
    'when this walk began; NULL: none is under way';
insert into deferred.__deferred_notice values ('-infinity', '-infinity', null);
grant select on deferred.__deferred_on_dead to deferred_worker, deferred_viewer;

-- ---------------------------------------------------------------- indexes for searches

-- What a search may find by an index, as "deferred index add" was told. The indexes are those of
-- the partitions, each by itself, so that each is built and dropped CONCURRENTLY: one of the parent
-- would lock it against who defers.
create table deferred.__deferred_search (
    number  integer generated always as identity primary key,
    term    text collate "C" not null unique,
    wanted  boolean not null default true,
    made_at timestamptz not null default clock_timestamp()
);
comment on table  deferred.__deferred_search is
    'what searches find by an index: deferred.__search_next()';
comment on column deferred.__deferred_search.number is
    'index PARTITION_search_NUMBER of each partition of __deferred is the one; no number comes '
    'twice';
comment on column deferred.__deferred_search.term is
    'label, or params. and the keys of a value from the outermost on, with dots between';
comment on column deferred.__deferred_search.wanted is
    'false: its indexes are being dropped, and no search uses them';
comment on column deferred.__deferred_search.made_at is 'when it was asked for';
grant select on deferred.__deferred_search to deferred_viewer, deferred_worker;

reset role;
