-- The worked example of rules: an application's documents and tasks, those older than three years
-- to be archived.
--
--     psql -v rows=1000000 -f tests/demo/archive.sql
--     deferred rule add archive_documents archive_row --key key \
--         "select 'document' as \"table\", id, 'document-' || id as key from app.document where changed_at < now() - interval '3 years'"
--     deferred rule add archive_tasks archive_row --key key \
--         "select 'task' as \"table\", id, 'task-' || id as key from app.task where done_at < now() - interval '3 years'"
--     deferred rule run                               # cron, at night
--     check_deferred --cnt 0 --pidfile /run/defer_1   # as many of them as are wanted, each with a pid file of its own
--
-- archive_row is in tests/plugins/archive.c. A key names the table too, since both rules fill one
-- queue. Of :rows rows a table, nine of ten are old.

create schema app;

create table app.document (
    id         bigint primary key,
    title      text not null,
    body       text not null,
    changed_at timestamptz not null
);
create table app.task (
    id          bigint primary key,
    document_id bigint not null,
    what        text not null,
    done_at     timestamptz not null
);

insert into app.document
select i, 'document ' || i, repeat('text ', 20), now() - case when i % 10 = 0 then interval '1 year'
    else interval '3 years 1 day' end
from generate_series(1, :rows) i;
insert into app.task
select i, i, 'look through document ' || i, now() - case when i % 10 = 0 then interval '1 year'
    else interval '3 years 1 day' end
from generate_series(1, :rows) i;

-- No primary key, so that a row that were archived twice would show.
create table app.document_archive (like app.document, archived_at timestamptz not null);
create table app.task_archive (like app.task, archived_at timestamptz not null);
create index on app.document_archive (id);
create index on app.task_archive (id);

analyze app.document, app.task;
