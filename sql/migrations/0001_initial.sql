-- 0001 initial: roles, tables, the functions that applications and administrators call.
--
-- The words used here (job, hot, attempt, claim, receipt, lease, dead) are defined in
-- deferred.3 and drawn as a state machine in lib/job.h. Functions here call some of later migrations (limits in 0004,
-- waking in 0005, progress in 0006): PostgreSQL looks for them at the call.

-- Roles are global to the cluster: another database may have made them already.
do $roles$
declare
    r text;
begin
    foreach r in array array['deferred_owner', 'deferred_producer', 'deferred_worker', 'deferred_viewer', 'deferred_http'] loop
        if not exists (select from pg_catalog.pg_roles where rolname = r) then
            execute pg_catalog.format('create role %I nologin', r);
        end if;
    end loop;
    -- A migrator who is no superuser must be a member before it can hand objects over.
    if not (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
        execute pg_catalog.format('grant deferred_owner to %I', current_user);
    end if;
    if not pg_catalog.pg_has_role('deferred_worker', 'deferred_producer', 'member') then
        grant deferred_producer to deferred_worker;  -- functions may defer further jobs
    end if;
end
$roles$;

create schema deferred authorization deferred_owner;
comment on schema deferred is 'jobs deferred by applications and run by check_deferred';

set local role deferred_owner;

-- ---------------------------------------------------------------- schema version

create table deferred.__deferred_migration (
    version    integer primary key,
    name       text not null,
    applied_at timestamptz not null default clock_timestamp(),
    applied_by name not null default session_user
);
comment on table  deferred.__deferred_migration is 'schema steps applied, one row each';
comment on column deferred.__deferred_migration.version is 'number of the step; the highest is the schema version';
comment on column deferred.__deferred_migration.name is 'what the step does, from its file name';
comment on column deferred.__deferred_migration.applied_at is 'when it was applied (database clock)';
comment on column deferred.__deferred_migration.applied_by is 'role that applied it';

-- ---------------------------------------------------------------- queues

create table deferred.__deferred_queue (
    name                  text collate "C" primary key
                          check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$'),
    paused                boolean not null default false,
    params_max_bytes      integer not null default 1048576 check (params_max_bytes > 0),
    created_at            timestamptz not null default clock_timestamp(),
    visibility_timeout_ms bigint check (visibility_timeout_ms between 1000 and 86400000),
    ttl_ms                bigint check (ttl_ms > 0),
    max_attempts          integer check (max_attempts > 0),
    backoff_floor_ms      bigint check (backoff_floor_ms > 0),
    backoff_ceiling_ms    bigint check (backoff_ceiling_ms > 0),
    backoff_exponent      double precision check (backoff_exponent between 1 and 100),
    max_running           integer check (max_running > 0),
    rate                  double precision check (rate between 1e-7 and 1e6),
    burst                 integer check (burst between 1 and 1000000),
    max_length            integer check (max_length > 0),
    on_full               text collate "C" not null default 'error' check (on_full in ('error', 'drop')),
    fn                    text collate "C" check (fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    metadata              json,
    weight                double precision not null default 1 check (weight between 0.001 and 1000),
    limited_jobs          boolean not null default false,
    removed_at            timestamptz,
    max_dequeue           integer check (max_dequeue between 1 and 1000),
    acl                   json,
    clearing_to           bigint,
    created_by            text collate "C",
    simple                boolean not null generated always as
                          (num_nonnulls(ttl_ms, max_length, max_running, rate, removed_at) = 0 and params_max_bytes >= 512) stored
);
comment on table  deferred.__deferred_queue is 'queues and their settings; a queue is added by the first job deferred to it';
comment on column deferred.__deferred_queue.name is 'name of the queue';
comment on column deferred.__deferred_queue.paused is 'true: nothing is claimed from it';
comment on column deferred.__deferred_queue.params_max_bytes is 'largest params accepted, in bytes';
comment on column deferred.__deferred_queue.created_at is 'when it was added';
comment on column deferred.__deferred_queue.visibility_timeout_ms is 'length of a lease, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.ttl_ms is 'a job deferred without an expiry expires after that, milliseconds; NULL: never';
comment on column deferred.__deferred_queue.max_attempts is 'of jobs that say nothing; NULL: what the function or the worker says';
comment on column deferred.__deferred_queue.backoff_floor_ms is 'of jobs that say nothing, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.backoff_ceiling_ms is 'of jobs that say nothing, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.backoff_exponent is 'of jobs that say nothing; NULL: what the worker says';
comment on column deferred.__deferred_queue.max_running is 'attempts at once, all workers together; NULL: no limit';
comment on column deferred.__deferred_queue.rate is 'attempts a second, all workers together; NULL: no limit';
comment on column deferred.__deferred_queue.burst is 'attempts that may start at once after a pause, where there is a rate; NULL: 1';
comment on column deferred.__deferred_queue.max_length is 'hot jobs it holds, each deferral counts that far; NULL: no limit';
comment on column deferred.__deferred_queue.on_full is 'what a deferral to a full queue does: error, or drop the new job without a word';
comment on column deferred.__deferred_queue.fn is 'function that a message deferred without one becomes a call of; NULL: it stays a message';
comment on column deferred.__deferred_queue.metadata is 'for applications; the HTTP front shows fn and max_dequeue with it';
comment on column deferred.__deferred_queue.weight is 'share of the claims of a worker that serves several queues';
comment on column deferred.__deferred_queue.limited_jobs is 'true: some hot job of it may be marked as limited; once true it stays so';
comment on column deferred.__deferred_queue.removed_at is 'when it was removed; the row stays, so that a job deferred in the same moment is not lost, and the next deferral brings it back';
comment on column deferred.__deferred_queue.max_dequeue is 'a message taken so often goes to the queue NAME-poison instead of being taken again; NULL: no limit';
comment on column deferred.__deferred_queue.acl is 'stored access policies of the HTTP front, as they were set';
comment on column deferred.__deferred_queue.clearing_to is 'removed with jobs in it, which are being cleared up to this id; NULL: none are';
comment on column deferred.__deferred_queue.created_by is 'role that added it by deferring to it, or account: and the account of the HTTP front that made it; NULL: an administrator, whom no quota binds';
comment on column deferred.__deferred_queue.simple is 'true: no setting is about a job without options that is deferred to it, unless its params are large';

-- Read from its beginning: has any queue limited jobs?
create index __deferred_queue_limited on deferred.__deferred_queue (limited_jobs desc);

create index __deferred_queue_created_by on deferred.__deferred_queue (created_by) where created_by is not null;

insert into deferred.__deferred_queue (name) values ('default');

create table deferred.__deferred_quota (
    creator text collate "C" primary key,
    queues  integer not null check (queues >= 0)
);
comment on table  deferred.__deferred_quota is 'how many queues may be there that somebody added';
comment on column deferred.__deferred_quota.creator is 'role, or account: and an account of the HTTP front; *: each that has no row';
comment on column deferred.__deferred_quota.queues is 'queues at a time';

insert into deferred.__deferred_quota (creator, queues) values ('*', 1000);

create table deferred.__deferred_creator (
    name text collate "C" primary key
);
comment on table  deferred.__deferred_creator is 'who has added queues, up to a tenth of the quota at least; a row is locked to add more';
comment on column deferred.__deferred_creator.name is 'as creator of __deferred_quota';

-- Those removed count until the quota is reached: then their rows go. Nothing is lost with them: a claim takes a queue without a row as one
-- without settings. Near its quota a creator waits for its other transactions that have added some; before, each may add a tenth unseen.
create function deferred.__queue_quota(creator text, out quota integer, out allowed boolean)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_count constant text := 'select count(*) from (select from deferred.__deferred_queue q where q.created_by = $1 limit $2) x';
    v_n bigint;
begin
    quota := (select q.queues from deferred.__deferred_quota q where q.creator in ($1, '*') order by q.creator = '*' limit 1);
    execute v_count into v_n using $1, quota;
    if v_n >= quota / 10 then
        insert into deferred.__deferred_creator (name) values ($1) on conflict do nothing;
        perform from deferred.__deferred_creator c where c.name = $1 for update;
        execute v_count into v_n using $1, quota;
    end if;
    if v_n >= quota then
        with gone as (
            delete from deferred.__deferred_queue q where q.created_by = $1 and q.removed_at is not null and q.clearing_to is null
            returning q.limited_jobs)
        update deferred.__deferred_queue q set limited_jobs = true
        where q.name = 'default' and not q.limited_jobs and exists (select from gone g where g.limited_jobs);
        execute v_count into v_n using $1, quota;
    end if;
    allowed := v_n < quota;
end
$$;
comment on function deferred.__queue_quota is 'may a role or an account add another queue?';

create function deferred.__queue_add(queue text, creator name) returns void
language plpgsql
as $$
declare
    v_bound boolean := not pg_has_role(creator, 'deferred_owner', 'member');
    v record;
begin
    if v_bound then
        select * into v from deferred.__queue_quota(creator::text);
        if not v.allowed then
            raise exception using errcode = '53400',
                message = format('queue %L is not there, and role %I has added %s already, as many as it may', queue, creator, v.quota),
                hint = 'an administrator adds it: deferred queue set NAME --create; or lets the role add more by a row in deferred.__deferred_quota';
        end if;
    end if;
    insert into deferred.__deferred_queue as q (name, created_by) values (queue, case when v_bound then creator end)
    on conflict (name) do update set removed_at = null, created_by = excluded.created_by where q.removed_at is not null;
end
$$;
comment on function deferred.__queue_add is 'adds a queue, or one that was removed, for a role whose job is the first in it';

-- ---------------------------------------------------------------- who may defer what

create table deferred.__deferred_grant (
    role  name not null,
    queue text collate "C",
    fn    text collate "C",
    unique nulls not distinct (role, queue, fn)
);
comment on table  deferred.__deferred_grant is 'optional limits for producers: a role named here may defer only what its rows allow; a role not named may defer anything';
comment on column deferred.__deferred_grant.role is 'login role, or role taken by SET ROLE; the rows of both count, so that SET ROLE does not lift a limit';
comment on column deferred.__deferred_grant.queue is 'queue allowed; NULL: any';
comment on column deferred.__deferred_grant.fn is 'function allowed; NULL: any';

-- ---------------------------------------------------------------- jobs

create sequence deferred.__deferred_id_seq as bigint;

-- The two tables a defer() writes have no CHECK constraints: PostgreSQL reads their text anew for every
-- statement, which costs a single insert 50 us, more than the two rows themselves. The functions below
-- check what they store, and deferred.check_ledger() finds what got around them.
create table deferred.__deferred (
    id                  bigint not null,
    queue               text collate "C" not null,
    fn                  text collate "C",
    params              json not null,
    label               text,
    key                 text collate "C",
    priority            smallint not null default 0,
    run_at              timestamptz,
    expires_at          timestamptz,
    max_attempts        integer,
    timeout_ms          bigint,
    backoff_floor_ms    bigint,
    backoff_ceiling_ms  bigint,
    backoff_exponent    double precision,
    created_at          timestamptz not null default clock_timestamp(),
    created_by          text collate "C" not null default session_user,
    concurrency_key     text collate "C",
    concurrency         integer,
    primary key (id)
) partition by range (id);
comment on table deferred.__deferred is 'the calls as they were deferred; rows are added and, long after, purged, never changed but for the params of a message its holder replaces, and for the lock of deferred.retry()';
comment on column deferred.__deferred.id is 'job id';
comment on column deferred.__deferred.queue is 'queue it was deferred to';
comment on column deferred.__deferred.fn is 'function to call, 1 to 127 characters; NULL: a plain message for a consumer';
comment on column deferred.__deferred.params is 'argument of the call, kept byte for byte';
comment on column deferred.__deferred.label is 'text for people, at most 1000 characters';
comment on column deferred.__deferred.key is 'at most one hot job of a queue that the same role deferred has this key; 1 to 1000 characters, at most 2500 bytes';
comment on column deferred.__deferred.priority is 'larger is taken earlier';
comment on column deferred.__deferred.run_at is 'not to be run before; NULL: at once';
comment on column deferred.__deferred.expires_at is 'not to be started after; NULL: never expires';
comment on column deferred.__deferred.max_attempts is 'attempts before the job is dead; NULL: default of the function or the worker';
comment on column deferred.__deferred.timeout_ms is 'limit of one attempt, milliseconds; NULL: default of the function or the worker';
comment on column deferred.__deferred.backoff_floor_ms is 'delay after the first failed attempt, milliseconds; NULL: default of the worker';
comment on column deferred.__deferred.backoff_ceiling_ms is 'longest delay, milliseconds; NULL: default of the worker';
comment on column deferred.__deferred.backoff_exponent is 'factor from one delay to the next, 1 to 100; NULL: default of the worker';
comment on column deferred.__deferred.created_at is 'when it was deferred (database clock)';
comment on column deferred.__deferred.created_by is 'login role, or role taken by SET ROLE, that deferred it';
comment on column deferred.__deferred.concurrency_key is 'of all hot jobs of the queue with this key that the same role deferred at most so many run at once; 1 to 1000 characters';
comment on column deferred.__deferred.concurrency is 'how many, 1 to 10000; NULL: 1, and then strictly one after the other in the order of their ids';

-- The net: a row that no partition takes lands here and is moved by deferred.maintain().
create table deferred.__deferred_default partition of deferred.__deferred default;

create table deferred.__deferred_hot (
    id              bigint not null primary key,
    queue           text collate "C" not null,
    fn              text collate "C",
    priority        smallint not null default 0,
    xid             xid8 not null default pg_current_xact_id(),
    due_at          timestamptz,
    visible_at      timestamptz not null,
    attempt         integer not null default 0,
    attempt_base    integer not null default 0,
    receipt         bigint,
    worker          bigint,
    started_at      timestamptz,
    expires_at      timestamptz,
    key             text collate "C",
    limited         boolean not null default false,
    bounded         boolean not null default false,
    concurrency_key text collate "C",
    concurrency     integer,
    put_receipt     bigint
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_hot is 'jobs still to be run; the row goes when there is nothing more to do';
comment on column deferred.__deferred_hot.id is 'job id, as in __deferred';
comment on column deferred.__deferred_hot.queue is 'copied from __deferred';
comment on column deferred.__deferred_hot.fn is 'copied from __deferred';
comment on column deferred.__deferred_hot.priority is 'copied from __deferred';
comment on column deferred.__deferred_hot.xid is 'arrival position: the transaction that made the row ready';
comment on column deferred.__deferred_hot.due_at is 'delayed until, for a message also hidden until; NULL: ready, or a call that is claimed';
comment on column deferred.__deferred_hot.visible_at is 'ready since, or while claimed the end of the lease, or while delayed = due_at';
comment on column deferred.__deferred_hot.attempt is 'attempts made so far, the one in progress included';
comment on column deferred.__deferred_hot.attempt_base is 'attempts made before the last retry by hand; they do not count against the limit';
comment on column deferred.__deferred_hot.receipt is 'token of the claim, random; NULL: not claimed';
comment on column deferred.__deferred_hot.worker is 'worker that holds the claim; NULL with a receipt: a consumer holds it';
comment on column deferred.__deferred_hot.started_at is 'when it was claimed';
comment on column deferred.__deferred_hot.expires_at is 'copied from __deferred';
comment on column deferred.__deferred_hot.key is 'key and created_by of __deferred in one: deferred.__own_key(); no two roles meet';
comment on column deferred.__deferred_hot.limited is 'true: claimed by deferred.__claim_limited() only';
comment on column deferred.__deferred_hot.bounded is 'true: counts for max_length of its queue';
comment on column deferred.__deferred_hot.concurrency_key is 'as key, of concurrency_key';
comment on column deferred.__deferred_hot.concurrency is 'copied from __deferred';
comment on column deferred.__deferred_hot.put_receipt is 'token that a message was put with; good while it was never taken (attempt 0, no receipt)';

-- A claim changes none of the columns these indexes hold, so it is a HOT update.
create index __deferred_hot_ready on deferred.__deferred_hot (queue, priority desc, xid, id)
    where due_at is null and not limited and fn is not null;
create index __deferred_hot_delayed on deferred.__deferred_hot (due_at) where due_at is not null and fn is not null;
create unique index __deferred_hot_key on deferred.__deferred_hot (queue, key) where key is not null;
-- One lane for each queue and function: no claim walks over jobs of a function that is at its limit.
create index __deferred_hot_limited on deferred.__deferred_hot (queue, fn, priority desc, id)
    where limited and due_at is null and concurrency_key is null;
-- One lane for each key, in the order of ids: a job waiting for a retry keeps its place. By a hash of the key, so that
-- a search can begin at a random one.
create index __deferred_hot_concurrency on deferred.__deferred_hot (queue, hashtextextended(concurrency_key, 0), id)
    where concurrency_key is not null;
create index __deferred_hot_bounded on deferred.__deferred_hot (queue) where bounded;
create index __deferred_hot_message on deferred.__deferred_hot (queue, due_at nulls first, priority desc, xid, id) where fn is null;

create table deferred.__deferred_log (
    job_id      bigint not null,
    attempt     integer not null,
    outcome     text collate "C" not null check (outcome in
                ('ok', 'failed', 'crashed', 'timeout', 'interrupted', 'superseded', 'lost', 'cancelled', 'expired')),
    final       boolean not null,
    error       text,
    exit_code   integer,
    signal      integer,
    started_at  timestamptz,
    finished_at timestamptz not null default clock_timestamp(),
    worker      bigint,
    receipt     bigint,
    plugin      text,
    wait_us     bigint,
    run_us      bigint,
    user_us     bigint,
    sys_us      bigint,
    max_rss_kb  bigint,
    result      text
) partition by range (finished_at);
comment on table  deferred.__deferred_log is 'one row an attempt; rows are added and, long after, purged, never changed';
comment on column deferred.__deferred_log.job_id is 'id of the job';
comment on column deferred.__deferred_log.attempt is 'number of the attempt from 1; 0: the job ended while nobody ran it';
comment on column deferred.__deferred_log.outcome is 'how the attempt ended';
comment on column deferred.__deferred_log.final is 'true: the job left __deferred_hot with this row';
comment on column deferred.__deferred_log.error is 'what went wrong, for people';
comment on column deferred.__deferred_log.exit_code is 'exit status, where a process ended by itself';
comment on column deferred.__deferred_log.signal is 'signal that ended the process';
comment on column deferred.__deferred_log.started_at is 'start of the attempt (database clock)';
comment on column deferred.__deferred_log.finished_at is 'end of the attempt (database clock)';
comment on column deferred.__deferred_log.worker is 'worker that made the attempt: __deferred_worker.id; NULL: a consumer';
comment on column deferred.__deferred_log.receipt is 'receipt of the claim, by which a worker that lost the answer finds its own row';
comment on column deferred.__deferred_log.plugin is 'plugin, version and build that ran it';
comment on column deferred.__deferred_log.wait_us is 'from ready to started, microseconds';
comment on column deferred.__deferred_log.run_us is 'from started to finished, microseconds';
comment on column deferred.__deferred_log.user_us is 'CPU time in user mode, microseconds';
comment on column deferred.__deferred_log.sys_us is 'CPU time in the kernel, microseconds';
comment on column deferred.__deferred_log.max_rss_kb is 'largest resident memory of the process so far, KiB';
comment on column deferred.__deferred_log.result is 'text handed back by the function, at most 8 KiB';

create index __deferred_log_job on deferred.__deferred_log (job_id);
-- Jobs that ended without success, newest first, for people; the many that end well never touch it.
create index __deferred_log_ended on deferred.__deferred_log (finished_at) where final and outcome <> 'ok';
create table deferred.__deferred_log_default partition of deferred.__deferred_log default;

create table deferred.__deferred_worker (
    id         bigint generated always as identity primary key,
    instance   text not null,
    host       text not null,
    pid        integer not null,
    version    text not null,
    started_at timestamptz not null default clock_timestamp(),
    seen_at    timestamptz not null default clock_timestamp(),
    ended_at   timestamptz,
    held       bigint[] not null default '{}',
    queues     text[]
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_worker is 'runs of check_deferred that had work, one row each';
comment on column deferred.__deferred_worker.id is 'worker id';
comment on column deferred.__deferred_worker.instance is 'host, pidfile, its device and inode, boot: two runs of one instance never overlap';
comment on column deferred.__deferred_worker.host is 'host name';
comment on column deferred.__deferred_worker.pid is 'process id on that host';
comment on column deferred.__deferred_worker.version is 'version of the program';
comment on column deferred.__deferred_worker.started_at is 'when it registered';
comment on column deferred.__deferred_worker.seen_at is 'its last claim or renewal';
comment on column deferred.__deferred_worker.ended_at is 'when it ended, or was found dead; NULL: taken to be alive';
comment on column deferred.__deferred_worker.held is 'ids it may hold a claim on, so that its successor finds them without a scan';
comment on column deferred.__deferred_worker.queues is 'queues it serves; NULL: all';
-- Up to some thousand ids, written anew by each claim: compressing them costs more than they are worth.
alter table deferred.__deferred_worker alter column held set storage external;
create index __deferred_worker_alive on deferred.__deferred_worker (instance) where ended_at is null;

-- Under a long snapshot a start would walk over all that has died since: it begins where the last one came to.
create table deferred.__deferred_cursor (
    queue     text collate "C" not null,
    priority  smallint not null,
    xid       xid8 not null,
    id        bigint not null,
    holes     xid8[] not null,
    server    timestamptz not null,
    learnt_at timestamptz not null,
    primary key (queue, priority)
);
comment on table  deferred.__deferred_cursor is 'where the ready jobs begin, as a run of check_deferred found whose start was slow; nothing is lost with a row';
comment on column deferred.__deferred_cursor.queue is 'queue';
comment on column deferred.__deferred_cursor.priority is 'priority: each one of a queue has a beginning of its own';
comment on column deferred.__deferred_cursor.xid is 'no job that this or a later run could find had an earlier (xid, id), but those of holes';
comment on column deferred.__deferred_cursor.id is 'see xid';
comment on column deferred.__deferred_cursor.holes is 'transactions that were in progress, or have left jobs behind';
comment on column deferred.__deferred_cursor.server is 'start of the server it was learnt from: for another one it means nothing';
comment on column deferred.__deferred_cursor.learnt_at is 'when all was read last; after 5 minutes it is read again';

-- Transaction ids that had left no trace when a server crashed are given out again. A session behind a pooler may outlive that, and the
-- postmaster goes on; its statistics begin anew.
create function deferred.__server_start() returns timestamptz
language sql stable
as $$
    select greatest(pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time())
$$;
comment on function deferred.__server_start() is 'start of the server, or end of its last recovery from a crash: what was learnt of transaction ids before means nothing';

-- Workers that claim in turn lock one of these. Two, so that one can read while the other commits.
create table deferred.__deferred_turn_0 ();
create table deferred.__deferred_turn_1 ();
comment on table deferred.__deferred_turn_0 is 'locked by a worker that claims in turn with many others; never has rows';
comment on table deferred.__deferred_turn_1 is 'as __deferred_turn_0, for the other half of the jobs';

-- ---------------------------------------------------------------- deferring

-- The role that acts: SET ROLE inside a session counts, the definer of these functions does not.
create function deferred.__actor() returns name
language sql stable
as $$
    select coalesce(nullif(current_setting('role', true), 'none'), session_user)::name
$$;
comment on function deferred.__actor() is 'role that acts: the one taken by SET ROLE, else the login role';

-- Else who guesses another's key could have his jobs swallowed, or held up for ever. The length tells where the name ends.
create function deferred.__own_key(owner text, key text) returns text
language sql immutable
as $$
    select case when $2 is not null then length($1) || ':' || $1 || ':' || $2 end
$$;
comment on function deferred.__own_key(text, text) is 'key of a job, or concurrency key, that only jobs deferred by the same role share; NULL: none';

create function deferred.__depth_ok(params json) returns boolean
language sql immutable
as $$
    -- Fewer than 513 opening brackets cannot nest deeper than 512: the common case stops there.
    select length(params::text) - length(translate(params::text, '[{', '')) <= 512
        or (select max(depth) <= 512
            from (select sum(case when c in ('[', '{') then 1 else -1 end) over (order by n) as depth
                  from string_to_table(regexp_replace(regexp_replace(params::text, E'"([^"\\\\]|\\\\.)*"', '', 'g'),
                                                      '[^][{}]', '', 'g'), null)
                       with ordinality as t(c, n)) s)
$$;
comment on function deferred.__depth_ok(json) is 'true unless params nest deeper than 512 levels';

-- One expression, so that the planner puts it in the place of the call.
create function deferred.__opts_ok(label text, key text, max_attempts integer, timeout_ms bigint,
    backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision)
returns boolean
language sql immutable
as $$
    select not coalesce(length(label) > 1000 or length(key) not between 1 and 1000 or octet_length(key) > 2500 or max_attempts < 1 or timeout_ms < 1
        or backoff_floor_ms < 1 or backoff_ceiling_ms < 1 or backoff_exponent not between 1 and 100, false)
$$;
comment on function deferred.__opts_ok is 'true if these options of a job are in range';

create function deferred.__enqueue(
    fn text, params json, queue text, label text, priority integer,
    delay_ms bigint, run_at timestamptz, expires_ms bigint, expires_at timestamptz,
    key text, on_duplicate text, max_attempts integer, timeout_ms bigint,
    backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision,
    concurrency_key text default null, concurrency integer default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue      text collate "C" := coalesce($3, 'default');
    v_fn         text collate "C" := $1;
    v_now        timestamptz := clock_timestamp();
    v_due        timestamptz;
    v_expires    timestamptz;
    v_max_bytes  integer;
    v_limited    boolean;
    v_ttl_ms     bigint;
    v_max_length integer;
    v_drop       boolean;
    v_removed    boolean;
    v_marked     boolean;
    v_usual      boolean;
    v_id         bigint;
    v_old        record;
    v_actor      name := deferred.__actor();
    v_key        text collate "C";
    v_lane       text collate "C";
begin
    -- Each expression and each statement costs a microsecond and more: the usual call passes all checks in two.
    if (length(v_fn) <= 127 and v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]*$' and $2 is not null
        and num_nonnulls($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) = 0) is not true then
        -- Without a function it is a message: a call to the function the queue is bound to, if there is one.
        if v_fn is null and $3 is not null then
            select q.fn into v_fn from deferred.__deferred_queue q where q.name = v_queue;
        end if;
        if (v_fn is null and $3 is null) or length(v_fn) > 127 or v_fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$' then
            raise exception using errcode = '22023',
                message = coalesce('invalid function name ' || quote_literal(left(v_fn, 200)), 'no function given'),
                hint = case when v_fn is null then 'only a message is without one, and names its queue; ' else '' end || 'a name has 1 to 127 letters, digits, "_" and ".", and begins with a letter or "_"';
        end if;
        if $2 is null then
            raise exception using errcode = '22004',
                message = format('params of %L are NULL', v_fn), hint = 'pass ''{}'' for a call without params';
        end if;
        if $5 not between -32768 and 32767 then
            raise exception using errcode = '22003',
                message = format('priority %s is out of range', $5), hint = 'use -32768 to 32767; larger is taken earlier';
        end if;
        if $6 < 0 or $8 < 0 then
            raise exception using errcode = '22003',
                message = format('negative time span: delay %s ms, expires %s ms', $6, $8);
        end if;
        if not deferred.__opts_ok($4, $10, $12, $13, $14, $15, $16) then
            raise exception using errcode = '22003',
                message = (
                    select format('option "%s" of %L is out of range: %s', o.name, v_fn, o.value)
                    from (values ('label', length($4) > 1000, length($4) || ' characters'),
                                 ('key', length($10) not between 1 and 1000 or octet_length($10) > 2500,
                                  length($10) || ' characters, ' || octet_length($10) || ' bytes'),
                                 ('max_attempts', $12 < 1, $12::text), ('timeout', $13 < 1, $13 || ' ms'),
                                 ('backoff_floor', $14 < 1, $14 || ' ms'), ('backoff_ceiling', $15 < 1, $15 || ' ms'),
                                 ('backoff_exponent', true, $16::text)) as o(name, bad, value)
                    where o.bad limit 1),
                hint = 'label: at most 1000 characters; key: 1 to 1000, at most 2500 bytes; max_attempts, timeout and '
                       'back-off delays: more than 0; backoff_exponent: 1 to 100';
        end if;
        if $11 not in ('skip', 'error', 'replace') then
            raise exception using errcode = '22023',
                message = format('invalid on_duplicate %L', left($11, 200)), hint = 'use skip, error or replace';
        end if;
        if v_fn is null and $17 is not null then
            raise exception using errcode = '22023', message = 'a message cannot have a concurrency_key',
                hint = 'it is for calls; set max_running of the queue to limit how many messages are out at once';
        end if;
        if ($17 is not null or $18 is not null) and not deferred.__concurrency_ok($17, $18) then
            raise exception using errcode = '22003',
                message = format('concurrency %s of key %L is out of range', coalesce($18::text, 'NULL'), left($17, 200)),
                hint = 'concurrency_key: 1 to 1000 characters; concurrency: 1 to 10000, together with a key';
        end if;
        if num_nonnulls($10, $17) > 0 then
            v_key := deferred.__own_key(v_actor, $10);
            v_lane := deferred.__own_key(v_actor, $17);
        end if;
        v_due := coalesce(nullif($7, '-infinity'), case when $6 > 0 and $7 is null then v_now + $6 * interval '1 millisecond' end);
        v_expires := coalesce($9, case when $8 > 0 then v_now + $8 * interval '1 millisecond' end);
    end if;
    -- One look at all tables.
    select q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop',
           $17 is not null or q.max_running is not null or q.rate is not null
           or exists (select from deferred.__deferred_function f where f.name = v_fn),
           q.removed_at is not null, q.limited_jobs,
           octet_length($2::text) <= least(q.params_max_bytes, 512) and num_nonnulls(q.ttl_ms, q.max_length, q.removed_at) = 0
           and not exists (select from deferred.__deferred_grant)
    into v_max_bytes, v_ttl_ms, v_max_length, v_drop, v_limited, v_removed, v_marked, v_usual
    from deferred.__deferred_queue q where q.name = v_queue;
    if (v_usual and not v_limited) is not true then
        if v_max_bytes is null then  -- no such queue yet
            v_limited := deferred.__is_limited(v_queue, v_fn, $17);
        end if;
        -- NULL for a role without rows, which may defer anything.
        if not (select bool_or((g.queue is null or g.queue = v_queue) and (g.fn is null or (g.fn = v_fn) is true))
                from deferred.__deferred_grant g where g.role in (v_actor, session_user)) then
            raise exception using errcode = '42501',
                message = format('role %I may not defer %L to queue %L', v_actor, v_fn, v_queue),
                hint = 'an administrator grants it by a row in deferred.__deferred_grant';
        end if;
        if v_max_bytes is null then
            if v_queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
                raise exception using errcode = '22023',
                    message = format('invalid queue name %L', left(v_queue, 200)),
                    hint = 'a name has 1 to 88 letters, digits, "_", "." and "-"';
            end if;
            perform deferred.__queue_add(v_queue, v_actor);
            v_max_bytes := 1048576;
        end if;
        if octet_length($2::text) > v_max_bytes then
            raise exception using errcode = '54000',
                message = format('params of %L have %s bytes, queue %L takes %s', v_fn, octet_length($2::text), v_queue, v_max_bytes),
                hint = 'store the data elsewhere and pass a reference, or raise params_max_bytes of the queue';
        end if;
        if octet_length($2::text) > 512 and not deferred.__depth_ok($2) then
            raise exception using errcode = '54000',
                message = format('params of %L nest deeper than 512 levels', v_fn);
        end if;
        if v_ttl_ms is not null and v_expires is null then
            v_expires := v_now + v_ttl_ms * interval '1 millisecond';
        end if;
        if v_removed then
            perform deferred.__queue_add(v_queue, v_actor);
        end if;
        -- The first of its kind in the queue: workers learn that there is more to ask for. A later one finds it done.
        if v_limited and v_marked is not true then
            update deferred.__deferred_queue q set limited_jobs = true where q.name = v_queue and not q.limited_jobs;
        end if;
        if v_max_length is not null and deferred.__queue_length(v_queue, v_max_length) >= v_max_length
           and ($10 is null or not exists (select from deferred.__deferred_hot h where h.queue = v_queue and h.key = v_key)) then
            if v_drop then return null; end if;
            raise exception using errcode = '53400',
                message = format('queue %L is full: it holds %s jobs', v_queue, v_max_length),
                hint = 'defer again later, or raise max_length of the queue';
        end if;
    end if;

    v_id := nextval('deferred.__deferred_id_seq');
    if $10 is null then
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, limited, bounded,
            concurrency_key, concurrency)
        values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires, v_limited,
            v_max_length is not null, v_lane, $18);
    else
        loop
            insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, key, limited, bounded,
                concurrency_key, concurrency)
            values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires, v_key, v_limited,
                v_max_length is not null, v_lane, $18)
            on conflict (queue, key) where key is not null do nothing;
            exit when found;
            -- Somebody has the key. Between the two statements he may have finished: then try again.
            -- Only who replaces it may lock it: else an open transaction would hold up the worker that runs it.
            select h.id, h.receipt, h.expires_at into v_old from deferred.__deferred_hot h where h.queue = v_queue and h.key = v_key;
            continue when not found;
            if v_old.receipt is null and v_old.expires_at <= v_now then
                -- It will never run: it must not stand in the way of one that can.
                with gone as (
                    delete from deferred.__deferred_hot h where h.id = v_old.id and h.receipt is null and h.expires_at <= v_now
                    returning h.id, h.expires_at)
                insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
                select g.id, 0, 'expired', true, format('not started before %s', g.expires_at) from gone g;
                continue;
            end if;
            if coalesce($11, 'skip') = 'skip' then
                return v_old.id;
            elsif $11 = 'error' then
                raise exception using errcode = '23505',
                    message = format('job %s of queue %L has key %L already', v_old.id, v_queue, $10);
            end if;
            select h.id, h.receipt into v_old from deferred.__deferred_hot h where h.queue = v_queue and h.key = v_key for update;
            continue when not found;
            if v_old.receipt is not null then
                raise exception using errcode = '55006',
                    message = format('job %s with key %L is being run and cannot be replaced', v_old.id, $10),
                    hint = 'defer again when it has finished, or use another key';
            end if;
            delete from deferred.__deferred_hot h where h.id = v_old.id;
            insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
            values (v_old.id, 0, 'cancelled', true, format('replaced by job %s', v_id));
        end loop;
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at, expires_at, max_attempts,
        timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by, concurrency_key, concurrency)
    values (v_id, v_queue, v_fn, $2, $4, $10, coalesce($5, 0), v_due, v_expires, $12, $13, $14, $15, $16, v_now, v_actor, $17,
        $18);
    -- A sleeper must learn when to rise; for what is due later the look that a service takes every half minute is soon enough.
    if (v_due is null or v_due < v_now + interval '1 minute') and not deferred.__unawaited(v_queue) then
        perform deferred.__wake(v_queue);
    end if;
    return v_id;
end
$$;
comment on function deferred.__enqueue is 'stores one job, whatever its options; what deferred.defer() and the C library call';

-- '5s', '1.5h', '200ms', '2d', or a bare number of seconds, to milliseconds.
create function deferred.__ms(name text, span text) returns bigint
language plpgsql immutable strict
as $$
declare
    m text[] := regexp_match(span, '^([0-9]+(?:[.][0-9]+)?)(ms|s|min|m|h|d)?$');
begin
    if m is null or length(m[1]) > 12 then
        raise exception using errcode = '22023',
            message = format('invalid time span %L for option "%s"', left(span, 200), name),
            hint = 'write a number and a unit: 200ms, 5s, 10min, 2h, 30d';
    end if;
    return round(m[1]::numeric * case m[2] when 'ms' then 1 when 'm' then 60000 when 'min' then 60000
                                           when 'h' then 3600000 when 'd' then 86400000 else 1000 end);
end
$$;
comment on function deferred.__ms(text, text) is 'a time span as people write it, in milliseconds';

create function deferred.__enqueue_opts(fn text, params json, opts json, queue text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    options constant text[] := '{queue,label,priority,delay,run_at,expires,expires_at,key,on_duplicate,max_attempts,timeout,
                                 backoff_floor,backoff_ceiling,backoff_exponent,concurrency_key,concurrency}';
    o   jsonb := opts::jsonb;
    bad record;
begin
    if jsonb_typeof(o) <> 'object' then
        raise exception using errcode = '22023', message = format('opts are a JSON %s, not an object', jsonb_typeof(o)),
            hint = 'for example {"queue": "mail", "delay": "5s"}';
    end if;
    if queue is not null and o ? 'queue' then
        raise exception using errcode = '22023', message = format('queue %L is given beside option "queue"', left(queue, 200)),
            hint = 'name the queue once';
    end if;
    if o - 'queue' = '{}' then
        return deferred.defer(fn, params, queue => coalesce(queue, o->>'queue'));
    end if;
    if o - options <> '{}' then
        raise exception using errcode = '22023',
            message = format('unknown option "%s"', (select left(k, 200) from jsonb_object_keys(o - options) k limit 1)),
            hint = 'options: ' || array_to_string(options, ', ');
    end if;
    -- Checked by pattern: an exception block would cost every call a subtransaction.
    if (o->>'priority' !~ '^-?[0-9]{1,9}$' or o->>'max_attempts' !~ '^-?[0-9]{1,9}$' or o->>'concurrency' !~ '^-?[0-9]{1,9}$'
        or o->>'backoff_exponent' !~ '^[0-9]{1,3}([.][0-9]{1,9})?$') is true then
        select k, v into bad
        from jsonb_each_text(o) as e(k, v)
        where (k in ('priority', 'max_attempts', 'concurrency') and v !~ '^-?[0-9]{1,9}$')
           or (k = 'backoff_exponent' and v !~ '^[0-9]{1,3}([.][0-9]{1,9})?$')
        limit 1;
        raise exception using errcode = '22023', message = format('invalid value %L for option "%s"', left(bad.v, 200), bad.k),
            hint = 'it takes a number';
    end if;
    return deferred.__enqueue(fn, params, coalesce(queue, o->>'queue'), o->>'label', (o->>'priority')::integer,
        deferred.__ms('delay', o->>'delay'), (o->>'run_at')::timestamptz,
        deferred.__ms('expires', o->>'expires'), (o->>'expires_at')::timestamptz,
        o->>'key', o->>'on_duplicate', (o->>'max_attempts')::integer, deferred.__ms('timeout', o->>'timeout'),
        deferred.__ms('backoff_floor', o->>'backoff_floor'), deferred.__ms('backoff_ceiling', o->>'backoff_ceiling'),
        (o->>'backoff_exponent')::double precision, o->>'concurrency_key', (o->>'concurrency')::integer);
end
$$;
comment on function deferred.__enqueue_opts is 'stores one job with its options as deferred.defer() takes them';

-- Most jobs have no options, their queue no settings, and nobody is limited: then one condition stands for all the
-- checks of __enqueue(), which cost as much as the rows.
create function deferred.defer(fn text, params json default '{}', opts json default null, queue text default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_id    bigint;
    v_now   timestamptz;
    v_queue text;
begin
    if opts is not null then
        return deferred.__enqueue_opts(fn, params, opts, $4);
    end if;
    insert into deferred.__deferred_hot (id, queue, fn, visible_at)
    select nextval('deferred.__deferred_id_seq'), q.name, $1, clock_timestamp()
    from deferred.__deferred_queue q
    where q.name = coalesce($4, 'default') and q.simple and octet_length($2::text) <= 512
      and length($1) <= 127 and $1 collate "C" ~ '^[A-Za-z_][A-Za-z0-9_.]*$'
      and not exists (select from deferred.__deferred_grant)
      and not exists (select from deferred.__deferred_function f where f.name = $1)
    returning id, visible_at, queue into v_id, v_now, v_queue;
    if v_id is null then
        return deferred.__enqueue(fn, params, $4, null, null, null, null, null, null, null, null, null, null, null, null, null);
    end if;
    insert into deferred.__deferred (id, queue, fn, params, created_at, created_by)
    values (v_id, v_queue, $1, $2, v_now, deferred.__actor());
    if not deferred.__unawaited(v_queue) then
        perform deferred.__wake(v_queue);
    end if;
    return v_id;
end
$$;
comment on function deferred.defer is 'have fn run later with params; returns the job id';

-- Many jobs in one statement. Arrays run in step; one shorter than fn is filled up with NULL, so
-- an option that no job uses is passed as NULL. Ids come back in the order of the input.
create function deferred.__enqueue_many(
    fn text[], params json[], queue text[], label text[], priority integer[],
    delay_ms bigint[], run_at timestamptz[], expires_ms bigint[], expires_at timestamptz[],
    key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[],
    backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[],
    concurrency_key text[] default null, concurrency integer[] default null)
returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now   timestamptz := clock_timestamp();
    v_actor name := deferred.__actor();
    v_ids   bigint[];
    v_n     integer := coalesce(array_length($1, 1), 0);
    v_bad   record;
    v_queues text[];
    v_special boolean;
begin
    if v_n = 0 then return; end if;
    -- A job with a key may meet another one; a limited role is checked job by job. Both take the
    -- way of the single job. So does an invalid job, which then reports itself.
    select j.n, j.fn, j.params, j.queue, j.priority into v_bad
    from unnest($1, $2, $3, $4, $5, $6, $8, $10, $12, $13, $14, $15, $16, $17, $18) with ordinality
         as j(fn, params, queue, label, priority, delay_ms, expires_ms, key, max_attempts, timeout_ms, backoff_floor_ms,
              backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency, n)
    left join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default')
    where j.key is not null or q.name is null or j.fn is null or j.params is null
       or length(j.fn) > 127 or j.fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$'
       or not deferred.__opts_ok(j.label, j.key, j.max_attempts, j.timeout_ms, j.backoff_floor_ms, j.backoff_ceiling_ms,
                                 j.backoff_exponent)
       or not deferred.__concurrency_ok(j.concurrency_key, j.concurrency)
       or q.max_length is not null or q.removed_at is not null
       or j.priority not between -32768 and 32767 or j.delay_ms < 0 or j.expires_ms < 0
       or octet_length(j.params::text) > q.params_max_bytes
       or (octet_length(j.params::text) > 512 and not deferred.__depth_ok(j.params))
    limit 1;
    if found or exists (select from deferred.__deferred_grant g where g.role in (v_actor, session_user)) then
        return query
            select deferred.__enqueue(j.fn, j.params, j.queue, j.label, j.priority, j.delay_ms, j.run_at, j.expires_ms,
                j.expires_at, j.key, j.on_duplicate, j.max_attempts, j.timeout_ms, j.backoff_floor_ms,
                j.backoff_ceiling_ms, j.backoff_exponent, j.concurrency_key, j.concurrency)
            from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
                 as j(fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at, key, on_duplicate,
                      max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency);
        return;
    end if;

    v_ids := array(select nextval('deferred.__deferred_id_seq') from generate_series(1, v_n));
    v_queues := array(select distinct coalesce(j.queue, 'default') from unnest($1, $3) as j(fn, queue));
    -- Where no queue named here has settings that matter now, none is looked up row by row.
    v_special := $17 is not null or exists (select from deferred.__deferred_function)
        or exists (select from deferred.__deferred_queue q
                   where q.name = any (v_queues) and coalesce(q.max_running, q.rate, q.ttl_ms) is not null);
    insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, limited, concurrency_key, concurrency)
    select j.id, coalesce(j.queue, 'default'), j.fn, coalesce(j.priority, 0), t.due, coalesce(t.due, v_now),
           coalesce(j.expires_at, case when j.expires_ms > 0 then v_now + j.expires_ms * interval '1 millisecond' end,
                    case when v_special then deferred.__queue_expiry(coalesce(j.queue, 'default'), v_now) end),
           case when v_special then deferred.__is_limited(coalesce(j.queue, 'default'), j.fn, j.concurrency_key) else false end,
           deferred.__own_key(v_actor, j.concurrency_key), j.concurrency
    from unnest(v_ids, $1, $3, $5, $6, $7, $8, $9, $17, $18)
         as j(id, fn, queue, priority, delay_ms, run_at, expires_ms, expires_at, concurrency_key, concurrency)
    cross join lateral (select coalesce(nullif(j.run_at, '-infinity'),
                        case when j.delay_ms > 0 and j.run_at is null then v_now + j.delay_ms * interval '1 millisecond' end) as due) t;
    if v_special then
        update deferred.__deferred_queue q set limited_jobs = true
        where q.name = any (v_queues) and not q.limited_jobs and exists (
            select from unnest($1, $3, $17) as j(fn, queue, concurrency_key)
            where coalesce(j.queue, 'default') = q.name and deferred.__is_limited(q.name, j.fn, j.concurrency_key));
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, priority, run_at, expires_at, max_attempts,
        timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by, concurrency_key, concurrency)
    select j.id, coalesce(j.queue, 'default'), j.fn, j.params, j.label, coalesce(j.priority, 0),
           coalesce(nullif(j.run_at, '-infinity'),
                    case when j.delay_ms > 0 and j.run_at is null then v_now + j.delay_ms * interval '1 millisecond' end),
           coalesce(j.expires_at, case when j.expires_ms > 0 then v_now + j.expires_ms * interval '1 millisecond' end,
                    case when v_special then deferred.__queue_expiry(coalesce(j.queue, 'default'), v_now) end),
           j.max_attempts, j.timeout_ms, j.backoff_floor_ms, j.backoff_ceiling_ms, j.backoff_exponent, v_now, v_actor,
           j.concurrency_key, j.concurrency
    from unnest(v_ids, $1, $2, $3, $4, $5, $6, $7, $8, $9, $12, $13, $14, $15, $16, $17, $18)
         as j(id, fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at, max_attempts, timeout_ms,
              backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency);
    perform deferred.__wake(t.queue)
    from (select distinct coalesce(j.queue, 'default') as queue
          from unnest($1, $3, $6, $7) as j(fn, queue, delay_ms, run_at)
          where coalesce(j.run_at < v_now + interval '1 minute', coalesce(j.delay_ms, 0) < 60000)) t;
    return query select unnest(v_ids);
end
$$;
comment on function deferred.__enqueue_many is 'stores many jobs in one statement; what deferred.defer_many() and the C library call';

create function deferred.defer_many(jobs json) returns setof bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    if json_typeof(jobs) is distinct from 'array' then
        raise exception using errcode = '22023', message = format('jobs are a JSON %s, not an array', coalesce(json_typeof(jobs), 'null')),
            hint = 'for example [{"fn": "noop"}, {"fn": "send_mail", "params": {}, "queue": "mail"}]';
    end if;
    select e.n, json_typeof(e.job) as kind into bad
    from json_array_elements(jobs) with ordinality as e(job, n) where json_typeof(e.job) <> 'object' limit 1;
    if found then
        raise exception using errcode = '22023', message = format('job %s is a JSON %s, not an object', bad.n, bad.kind);
    end if;
    select e.n, k.name into bad
    from json_array_elements(jobs) with ordinality as e(job, n), json_object_keys(e.job) as k(name)
    where k.name not in ('fn', 'params', 'queue', 'label', 'priority', 'delay', 'run_at', 'expires', 'expires_at', 'key',
        'on_duplicate', 'max_attempts', 'timeout', 'backoff_floor', 'backoff_ceiling', 'backoff_exponent',
        'concurrency_key', 'concurrency')
    limit 1;
    if found then
        raise exception using errcode = '22023', message = format('job %s: unknown option "%s"', bad.n, left(bad.name, 200)),
            hint = 'beside fn and params: queue, label, priority, delay, run_at, expires, expires_at, key, on_duplicate, max_attempts, timeout, '
                   'backoff_floor, backoff_ceiling, backoff_exponent, concurrency_key, concurrency';
    end if;
    -- One look at each job; params by "->", which keeps them byte for byte. Sorted once, not by each array. An option that no job
    -- has is no array: one of NULLs costs half a microsecond a job.
    return query select m.* from (
        select array_agg(j.fn) as fn, array_agg(coalesce(j.call_params, '{}')) as params,
               case when count(j.queue) > 0 then array_agg(j.queue) end as queue,
               case when count(j.label) > 0 then array_agg(j.label) end as label,
               case when count(j.priority) > 0 then array_agg(j.priority) end as priority,
               case when count(j.delay) > 0 then array_agg(deferred.__ms('delay', j.delay)) end as delay_ms,
               case when count(j.run_at) > 0 then array_agg(j.run_at) end as run_at,
               case when count(j.expires) > 0 then array_agg(deferred.__ms('expires', j.expires)) end as expires_ms,
               case when count(j.expires_at) > 0 then array_agg(j.expires_at) end as expires_at,
               case when count(j.key) > 0 then array_agg(j.key) end as key,
               case when count(j.on_duplicate) > 0 then array_agg(j.on_duplicate) end as on_duplicate,
               case when count(j.max_attempts) > 0 then array_agg(j.max_attempts) end as max_attempts,
               case when count(j.timeout) > 0 then array_agg(deferred.__ms('timeout', j.timeout)) end as timeout_ms,
               case when count(j.backoff_floor) > 0 then array_agg(deferred.__ms('backoff_floor', j.backoff_floor)) end as backoff_floor_ms,
               case when count(j.backoff_ceiling) > 0 then array_agg(deferred.__ms('backoff_ceiling', j.backoff_ceiling)) end as backoff_ceiling_ms,
               case when count(j.backoff_exponent) > 0 then array_agg(j.backoff_exponent) end as backoff_exponent,
               case when count(j.concurrency_key) > 0 then array_agg(j.concurrency_key) end as concurrency_key,
               case when count(j.concurrency) > 0 then array_agg(j.concurrency) end as concurrency
        from (
            select e.job->'params' as call_params, r.*
            from json_array_elements(jobs) with ordinality as e(job, n)
            cross join lateral json_to_record(e.job) as r(fn text, queue text, label text, priority integer, delay text, run_at timestamptz,
                expires text, expires_at timestamptz, key text, on_duplicate text, max_attempts integer, timeout text,
                backoff_floor text, backoff_ceiling text, backoff_exponent double precision,
                concurrency_key text, concurrency integer)
            order by e.n) j) a
    cross join lateral deferred.__enqueue_many(a.fn, a.params, a.queue, a.label, a.priority, a.delay_ms, a.run_at, a.expires_ms,
        a.expires_at, a.key, a.on_duplicate, a.max_attempts, a.timeout_ms, a.backoff_floor_ms, a.backoff_ceiling_ms, a.backoff_exponent,
        a.concurrency_key, a.concurrency) m;
end
$$;
comment on function deferred.defer_many(json) is 'defer a JSON array of {"fn", "params", options}; returns the job ids in its order';

-- ---------------------------------------------------------------- state of a job

create function deferred.state(outcome text) returns text
language sql immutable
as $$
    select case outcome when 'ok' then 'done' when 'cancelled' then 'cancelled' when 'expired' then 'expired' else 'dead' end
$$;
comment on function deferred.state(text) is 'state of a job whose last attempt ended finally with this outcome';

-- What a viewer sees of every job: no params, no results, no error texts. A job whose time has come is ready, though it
-- keeps its due_at until a worker looks for such jobs: where none does, that shows as jobs that have long been ready.
create view deferred.job as
    select d.id, d.queue, d.fn, d.label, d.key, d.priority, d.created_at, d.created_by,
           case when h.id is null then deferred.state(l.outcome)
                when h.receipt is not null and h.visible_at > clock_timestamp() then 'claimed'
                when h.due_at > clock_timestamp() then 'delayed'
                else 'ready' end as state,
           coalesce(h.attempt, l.attempts, 0) as attempt,
           coalesce(h.due_at, h.visible_at) as visible_at,
           h.worker, h.started_at,
           case when h.id is null then l.finished_at end as finished_at,
           l.outcome as last_outcome,
           d.concurrency_key, coalesce(h.limited, false) as limited
    from deferred.__deferred d
    left join deferred.__deferred_hot h using (id)
    left join lateral (
        select last_value(x.outcome) over w as outcome, max(x.attempt) over w as attempts, last_value(x.finished_at) over w as finished_at
        from deferred.__deferred_log x where x.job_id = d.id
        window w as (order by x.finished_at, x.attempt rows between unbounded preceding and unbounded following) limit 1) l on true;
comment on view deferred.job is 'every job with its state; without params, results and error texts';

-- ---------------------------------------------------------------- administration

create function deferred.__may_touch(owner name) returns boolean
language sql stable
as $$
    select owner = deferred.__actor()
        or pg_has_role(deferred.__actor(), 'deferred_owner', 'member')
        or pg_has_role(deferred.__actor(), 'deferred_worker', 'member')
$$;
comment on function deferred.__may_touch(name) is 'true for who deferred a job, for workers and administrators';

create function deferred.__state(id bigint) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select j.state from deferred.job j where j.id = $1 and deferred.__may_touch(j.created_by::name)
$$;
comment on function deferred.__state(bigint) is 'part of "deferred cancel": state of a job that one may cancel; NULL: no such job, or that of another role';

-- The worker that runs it is told: by a notification, should it listen. What is sent is a hint only, on which the worker looks
-- at its claims; so anybody may send it.
create function deferred.cancel(id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
begin
    if not exists (select from deferred.__deferred d where d.id = $1 and deferred.__may_touch(d.created_by::name)) then
        return false;
    end if;
    delete from deferred.__deferred_hot x where x.id = $1 returning * into h;
    if not found then return false; end if;
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
    values (h.id, case when h.receipt is null then 0 else h.attempt end, 'cancelled', true,
            format('cancelled by %s', deferred.__actor()), h.started_at, h.worker, h.receipt);
    if h.receipt is not null then
        delete from deferred.__deferred_progress p where p.job_id = $1;
        if h.worker is not null then perform pg_notify('deferred', '!' || h.worker); end if;
    end if;
    return true;
end
$$;
comment on function deferred.cancel(bigint) is 'take a job out of the queue, running or not; its worker asks a running attempt to stop, and kills it soon after. False: nothing to cancel';

create function deferred.retry(id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
    d deferred.__deferred;
    v_outcome text;
    v_attempt integer;
begin
    select * into d from deferred.__deferred x where x.id = $1;
    if not found or not deferred.__may_touch(d.created_by::name) then return false; end if;
    select * into h from deferred.__deferred_hot x where x.id = $1 for update;
    if found then
        if h.receipt is not null then
            if h.visible_at > clock_timestamp() then
                raise exception using errcode = '55006', message = format('job %s is being run', $1),
                    hint = 'wait for its outcome, or cancel it first';
            end if;
            return true;  -- its lease has ended: the next claim takes it
        end if;
        update deferred.__deferred_hot x set due_at = null, visible_at = clock_timestamp(), xid = pg_current_xact_id()
        where x.id = $1 and x.due_at is not null;
        perform deferred.__wake(h.queue);
        return true;
    end if;
    -- Written, so that of two who retry it at once the second sees what became of the first, or fails if its snapshot is older.
    update deferred.__deferred x set label = x.label where x.id = $1;
    if exists (select from deferred.__deferred_hot x where x.id = $1) then return true; end if;
    select l.outcome into v_outcome from deferred.__deferred_log l where l.job_id = $1 and l.final
    order by l.finished_at desc, l.attempt desc limit 1;
    if v_outcome = 'ok' then
        raise exception using errcode = '55000', message = format('job %s is done', $1),
            hint = 'defer the call again to have it run once more';
    elsif v_outcome is null then
        raise exception using errcode = '55000', message = format('job %s ended so long ago that its attempts were purged', $1),
            hint = 'defer the call again';
    end if;
    select coalesce(max(l.attempt), 0) into v_attempt from deferred.__deferred_log l where l.job_id = $1;
    insert into deferred.__deferred_hot (id, queue, fn, priority, visible_at, attempt, attempt_base, key, limited, bounded,
        concurrency_key, concurrency)
    values (d.id, d.queue, d.fn, d.priority, clock_timestamp(), v_attempt, v_attempt, deferred.__own_key(d.created_by, d.key),
        deferred.__is_limited(d.queue, d.fn, d.concurrency_key),
        exists (select from deferred.__deferred_queue q where q.name = d.queue and q.max_length is not null),
        deferred.__own_key(d.created_by, d.concurrency_key), d.concurrency)
    on conflict on constraint __deferred_hot_pkey do nothing;
    insert into deferred.__deferred_queue (name) values (d.queue) on conflict do nothing;
    update deferred.__deferred_queue q set limited_jobs = q.limited_jobs or x.limited, removed_at = null
    from deferred.__deferred_hot x
    where x.id = $1 and q.name = x.queue and (q.removed_at is not null or (x.limited and not q.limited_jobs));
    perform deferred.__wake(d.queue);
    return true;
exception when unique_violation then
    raise exception using errcode = '23505', message = format('job %s has key %L, which a newer job has too', $1, d.key),
        hint = 'cancel the newer job, or defer the call again';
end
$$;
comment on function deferred.retry(bigint) is 'have a dead, cancelled, expired or delayed job run now, with all its attempts again. False: no such job';

-- ---------------------------------------------------------------- claiming

-- What is claimed lies before what is not, but for a few jobs. Where many workers claim, each would walk over all that the others
-- hold, the longer the more they are. So the end of it is found by halving: first which transaction it lies in, then where among
-- the ids of that one. Jobs that are passed over in this way are left to claims that read everything.
create function deferred.__front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, out xid xid8, out id bigint)
language plpgsql stable strict
as $$
declare
    v_low   bigint;
    v_high  bigint := least(p_until, pg_snapshot_xmax(pg_current_snapshot()))::text::bigint;
    v_xid   xid8 := p_xid;
    v_id    bigint := p_id;
    v_job   record;
begin
    xid := p_xid;
    id := p_id;
    loop
        select h.xid, h.id, h.visible_at > now() as claimed into v_job
        from deferred.__deferred_hot h
        where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null
          and (h.xid, h.id) >= (v_xid, v_id) and h.xid < p_until and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
        order by h.xid, h.id limit 1;
        if v_job.claimed then
            xid := v_job.xid;
            id := v_job.id;
            v_low := xid::text::bigint;
        elsif v_low is null then
            return;  -- nothing to pass over
        else
            v_high := v_xid::text::bigint;
        end if;
        exit when v_high - v_low < 2;
        v_xid := (v_low + (v_high - v_low) / 2)::text::xid8;
        v_id := -9223372036854775808;
    end loop;

    v_low := id;
    select h.id + 1 into v_high
    from deferred.__deferred_hot h
    where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null and h.xid = __front.xid
      and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
    order by h.id desc limit 1;
    while v_high - v_low > 1 loop
        v_id := v_low + (v_high - v_low) / 2;
        select h.id, h.visible_at > now() as claimed into v_job
        from deferred.__deferred_hot h
        where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null
          and h.xid = __front.xid and h.id >= v_id and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
        order by h.id limit 1;
        if v_job.claimed then
            id := v_job.id;
            v_low := id;
        else
            v_high := v_id;
        end if;
    end loop;
end
$$;
comment on function deferred.__front is 'where in a lane, or in the half 0 or 1 of it, the claimed jobs end and the ready ones begin; nearly so, for a few lie before; part of a claim';

-- Which queues have jobs, one step through the index for each of them: those without cost nothing, however many there are. What is dead
-- is walked over only in queues that the cursor does not know (lib/cursor.h).
create function deferred.__claim_queues(queues text[], cursor_queues text[]) returns table (name text, known boolean)
language plpgsql stable rows 10
as $$
declare
    v_name text collate "C" := '';
    v_next text collate "C";
    v_stop text collate "C";
begin
    if queues is not null then
        return query select distinct q, q = any (cursor_queues) from unnest(queues) q;
        return;
    end if;
    foreach v_stop in array cursor_queues || '~'::text loop  -- which is behind all names
        continue when v_stop = v_name;
        known := false;
        loop
            select h.queue into v_next from deferred.__deferred_hot h
            where h.queue > v_name and h.queue < v_stop and h.due_at is null and not h.limited and h.fn is not null
            order by h.queue limit 1;
            exit when not found;
            v_name := v_next;
            name := v_name;
            return next;
        end loop;
        exit when v_stop = '~';
        known := true;
        v_name := v_stop;
        name := v_name;
        return next;
    end loop;
end
$$;
comment on function deferred.__claim_queues is 'the queues a claim asks: those served, or if all are, those its cursor knows, in order, and others that have jobs, claimed ones too';

create function deferred.__limited_jobs(queues text[]) returns boolean
language plpgsql stable
as $$
begin
    if queues is null then
        return (select q.limited_jobs from deferred.__deferred_queue q order by q.limited_jobs desc limit 1);
    end if;
    -- One that has no row was removed, or is to come: its jobs may be limited.
    return exists (select from unnest(queues) n left join lateral (select x.limited_jobs from deferred.__deferred_queue x where x.name = n limit 1) q on true
                   where q.limited_jobs is not false);
end
$$;
comment on function deferred.__limited_jobs is 'true: some of the queues served, NULL: of all, may have limited jobs';

-- ---------------------------------------------------------------- partitions and retention

-- Attach a partition for [lo, hi), taking over rows that fell into the net. Gives up, and leaves
-- all as it was, where the parent cannot be locked at once: the net takes the rows meanwhile.
-- in_use: rows of that range are being added now. Then nobody may be adding one meanwhile: it would land in the net after the
-- move, or find itself in front of a net that does not take it any more.
create function deferred.__add_partition(parent text, name text, col text, lo text, hi text, in_use boolean default true) returns boolean
language plpgsql
as $$
begin
    if in_use then
        execute format('lock table only deferred.%I in share row exclusive mode', parent);
    end if;
    execute format('create table deferred.%I (like deferred.%I including defaults including constraints including comments)', name, parent);
    execute format('with moved as (delete from deferred.%I where %I >= %L and %I < %L returning *) insert into deferred.%I select * from moved',
                   parent || '_default', col, lo, col, hi, name);
    execute format('alter table deferred.%I attach partition deferred.%I for values from (%L) to (%L)', parent, name, lo, hi);
    return true;
end
$$;
comment on function deferred.__add_partition is 'adds one partition; part of deferred.maintain()';

create function deferred.maintain() returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
as $$
declare
    v_made  integer := 0;
    v_week  date;
    v_last  bigint;
    v_lo    bigint;
    v_width constant bigint := 10000000;
    v_utc   constant text := 'UTC';
begin
    perform deferred.__forget_keys(1000);
    -- The common case costs two catalog look-ups and takes no lock.
    if to_regclass(format('deferred.%I', '__deferred_log_' || to_char(date_trunc('week', now() at time zone v_utc) + interval '3 weeks', 'YYYYMMDD'))) is not null then
        select last_value into v_last from deferred.__deferred_id_seq;
        if to_regclass(format('deferred.%I', '__deferred_' || ((v_last + v_width / 2) / v_width))) is not null then
            return 0;
        end if;
    end if;
    if not pg_try_advisory_xact_lock(hashtextextended('deferred.maintain', 0)) then return 0; end if;

    for i in 0..4 loop  -- a month ahead: a week without maintenance leaves no gap
        v_week := (date_trunc('week', now() at time zone v_utc) + i * interval '1 week')::date;
        if to_regclass(format('deferred.%I', '__deferred_log_' || to_char(v_week, 'YYYYMMDD'))) is null then
            perform deferred.__add_partition('__deferred_log', '__deferred_log_' || to_char(v_week, 'YYYYMMDD'), 'finished_at',
                v_week || ' 00:00:00+00', (v_week + 7) || ' 00:00:00+00', v_week < (now() + interval '1 hour') at time zone v_utc);
            v_made := v_made + 1;
        end if;
    end loop;

    select last_value into v_last from deferred.__deferred_id_seq;
    for i in v_last / v_width .. (v_last + v_width / 2) / v_width loop
        if to_regclass(format('deferred.%I', '__deferred_' || i)) is null then
            v_lo := i * v_width;
            perform deferred.__add_partition('__deferred', '__deferred_' || i, 'id', v_lo::text, (v_lo + v_width)::text,
                v_last >= v_lo - v_width / 100);
            v_made := v_made + 1;
        end if;
    end loop;
    return v_made;
exception when lock_not_available then
    return 0;  -- somebody reads for long: the next call does it, weeks before it matters
end
$$;
comment on function deferred.maintain() is 'adds the partitions the next weeks need; returns how many; cheap to call often';

-- One step of retention: drops one partition that holds nothing younger than the limit and no hot
-- job. Returns its name, or NULL when none is left. A partition in use is left for the next time.
create function deferred.__purge_partition(older_than interval) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
as $$
declare
    v_cutoff timestamptz := clock_timestamp() - older_than;
    p record;
    v_hit boolean;
begin
    for p in
        select c.relname, i.inhparent = 'deferred.__deferred_log'::regclass as is_log,
               (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('([^']+)'\) TO \('([^']+)'\)$re$)) as bound
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent in ('deferred.__deferred_log'::regclass, 'deferred.__deferred'::regclass)
          and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
        order by is_log desc, c.relname
    loop
        if p.is_log then
            continue when p.bound[2]::timestamptz > v_cutoff;
            -- Attempts of a hot job stay: the other rows go page by page.
            continue when exists (
                select from deferred.__deferred_hot h join deferred.__deferred_log l on l.job_id = h.id
                where h.attempt > 0 and l.finished_at >= p.bound[1]::timestamptz and l.finished_at < p.bound[2]::timestamptz);
        else
            continue when p.bound[2]::bigint > (select last_value from deferred.__deferred_id_seq);
            continue when exists (select from deferred.__deferred_hot h where h.id >= p.bound[1]::bigint and h.id < p.bound[2]::bigint);
            continue when exists (select from deferred.__deferred_log l where l.job_id >= p.bound[1]::bigint and l.job_id < p.bound[2]::bigint);
            execute format('select exists (select from deferred.%I where created_at >= %L)', p.relname, v_cutoff) into v_hit;
            continue when v_hit;
        end if;
        execute format('drop table deferred.%I', p.relname);
        return p.relname;
    end loop;
    return null;
exception when lock_not_available then
    return null;
end
$$;
comment on function deferred.__purge_partition(interval) is 'part of "deferred purge": drops one outlived partition';

-- Another step: rows past the limit in a partition that also holds younger ones. Works through
-- pages [page, page + pages) of one partition, so that every step is short whatever its size.
create function deferred.__purge_log(part regclass, older_than interval, page bigint, pages integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows bigint;
begin
    if not exists (select from pg_inherits i where i.inhrelid = part and i.inhparent = 'deferred.__deferred_log'::regclass) then
        raise exception using errcode = '22023', message = format('%s is no partition of the log', part);
    end if;
    execute format('delete from %s l where l.ctid >= %L::tid and l.ctid < %L::tid and l.finished_at < %L
                    and not exists (select from deferred.__deferred_hot h where h.id = l.job_id)',
                   part, format('(%s,0)', page), format('(%s,0)', page + pages), clock_timestamp() - older_than);
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function deferred.__purge_log is 'part of "deferred purge": deletes outlived rows from some pages of a log partition';

-- And the definitions: those from id on, in order of id, that are past the limit, not hot and have
-- no log row left. next_id NULL: nothing further is old enough.
create function deferred.__purge_jobs(older_than interval, from_id bigint, batch integer, out purged bigint, out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_cutoff timestamptz := clock_timestamp() - older_than;
begin
    with seen as materialized (
        select d.id, d.created_at from deferred.__deferred d where d.id >= from_id order by d.id limit batch),
    gone as (
        delete from deferred.__deferred d using seen s
        where d.id = s.id and s.created_at < v_cutoff
          and not exists (select from deferred.__deferred_hot h where h.id = d.id)
          and not exists (select from deferred.__deferred_log l where l.job_id = d.id)
        returning 1)
    select (select count(*) from gone),
           (select max(id) + 1 from seen having bool_or(seen.created_at < v_cutoff))
    into purged, next_id;
end
$$;
comment on function deferred.__purge_jobs is 'part of "deferred purge": deletes outlived jobs from some ids on';

-- And what runs left behind.
create function deferred.__purge_workers(older_than interval) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows bigint;
begin
    delete from deferred.__deferred_worker w where coalesce(w.ended_at, w.seen_at) < clock_timestamp() - older_than
       and not exists (select from unnest(w.held) i join deferred.__deferred_hot h on h.id = i where h.worker = w.id);
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function deferred.__purge_workers(interval) is 'part of "deferred purge": deletes rows of runs ended long ago';

-- ---------------------------------------------------------------- invariants

create function deferred.check_ledger() returns table (invariant text, job_id bigint, detail text)
language sql stable
as $$
    select 'I1: a job is hot or has a final log row', d.id, 'neither hot nor finished'
    from deferred.__deferred d
    where not exists (select from deferred.__deferred_hot h where h.id = d.id)
      and not exists (select from deferred.__deferred_log l where l.job_id = d.id and l.final)
  union all
    select 'I1: a hot row has its job', h.id, 'no row in __deferred'
    from deferred.__deferred_hot h where not exists (select from deferred.__deferred d where d.id = h.id)
  union all
    select 'I2: at most one ok', l.job_id, format('%s ok rows', count(*))
    from deferred.__deferred_log l where l.outcome = 'ok' group by l.job_id having count(*) > 1
  union all
    select 'I3: attempts are numbered 1..n', l.job_id, format('%s rows, numbers up to %s', count(*), max(l.attempt))
    from deferred.__deferred_log l where l.attempt > 0
    group by l.job_id having count(*) <> max(l.attempt) or count(distinct l.attempt) <> count(*)
  union all
    select 'I3: only a claim is missing in the log', h.id, format('attempt %s, %s logged', h.attempt, count(l.attempt))
    from deferred.__deferred_hot h left join deferred.__deferred_log l on l.job_id = h.id and l.attempt > 0
    group by h.id, h.attempt, h.receipt
    having count(l.attempt) <> h.attempt - (h.receipt is not null)::integer
  union all
    select 'I6: no final row while hot', h.id, format('final row of attempt %s', l.attempt)
    from deferred.__deferred_hot h join deferred.__deferred_log l on l.job_id = h.id and l.final and l.attempt > h.attempt_base
  union all
    select 'I7: a hot row is delayed, ready or claimed', h.id, format('attempt %s of base %s, receipt %s, worker %s, due %s',
           h.attempt, h.attempt_base, h.receipt, h.worker, h.due_at)
    from deferred.__deferred_hot h
    where h.attempt < h.attempt_base or h.attempt_base < 0
       or case when h.fn is not null then (h.receipt is null) <> (h.worker is null) or (h.receipt is not null and h.due_at is not null)
               else h.worker is not null or h.due_at <> h.visible_at
                    or (h.receipt is not null and h.visible_at > clock_timestamp() and h.due_at is null) end
  union all
    select 'I7: a hot row has its job''s keys', h.id, format('key %L, concurrency key %L', h.key, h.concurrency_key)
    from deferred.__deferred_hot h join deferred.__deferred d on d.id = h.id
    where h.key is distinct from deferred.__own_key(d.created_by, d.key)
       or h.concurrency_key is distinct from deferred.__own_key(d.created_by, d.concurrency_key)
  union all
    select 'I8: a job is as deferred.defer() stores it', d.id, format('function %L, queue %L', d.fn, d.queue)
    from deferred.__deferred d
    where d.fn !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'
       or not deferred.__opts_ok(d.label, d.key, d.max_attempts, d.timeout_ms, d.backoff_floor_ms, d.backoff_ceiling_ms,
                                 d.backoff_exponent)
$$;
comment on function deferred.check_ledger() is 'violations of the promises kept between the tables: no rows when all is well. Reads everything; for tests and doubts';

-- ---------------------------------------------------------------- rights

revoke all on all functions in schema deferred from public;
grant usage on schema deferred to deferred_producer, deferred_worker, deferred_viewer;
grant execute on function deferred.defer, deferred.defer_many(json), deferred.__ms(text, text),
    deferred.__enqueue, deferred.__enqueue_many, deferred.cancel(bigint), deferred.__state(bigint) to deferred_producer;
grant execute on function deferred.retry(bigint), deferred.maintain(), deferred.__actor(), deferred.__may_touch(name),
    deferred.state(text), deferred.check_ledger(), deferred.__opts_ok, deferred.__own_key(text, text), deferred.__front, deferred.__claim_queues, deferred.__limited_jobs, deferred.__server_start() to deferred_worker;
grant execute on function deferred.state(text) to deferred_viewer;
grant select on deferred.__deferred_migration to deferred_producer, deferred_worker, deferred_viewer;
grant select on deferred.__deferred, deferred.__deferred_log, deferred.__deferred_queue, deferred.job to deferred_worker;
grant select, update, delete on deferred.__deferred_hot to deferred_worker;
grant insert on deferred.__deferred_log to deferred_worker;
grant update on deferred.__deferred_turn_0, deferred.__deferred_turn_1 to deferred_worker;
grant select, insert, update on deferred.__deferred_cursor to deferred_worker;
grant select, insert, update on deferred.__deferred_worker to deferred_worker;
grant select on deferred.job, deferred.__deferred_queue, deferred.__deferred_worker to deferred_viewer;
grant select (id, queue, fn, priority, due_at, visible_at, attempt, worker, started_at, expires_at, key) on deferred.__deferred_hot to deferred_viewer;
grant select (ctid, job_id, attempt, outcome, final, exit_code, signal, started_at, finished_at, worker, plugin, wait_us, run_us,
              user_us, sys_us, max_rss_kb) on deferred.__deferred_log to deferred_viewer;

reset role;
