/* SPDX-License-Identifier: MIT */
#include "port/config.h"

/*
 * Every setting, in the order in which deferred.conf and deferred.conf(5) explain them; a test holds the
 * three equal. The members of a section stand together. Ranges are in the base unit: CONFIG_MS in
 * milliseconds, CONFIG_BYTES in bytes.
 */
#define SECOND 1e3
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define TEXT(name, def, what) { name, CONFIG_TEXT, def, 0, 0, NULL, NULL, what }
#define NUMBER(name, type, def, min, max, what) { name, CONFIG_##type, def, min, max, NULL, NULL, what }
#define FLAG(name, def, what) { name, CONFIG_FLAG, def, 0, 0, NULL, NULL, what }
#define CHOICE(name, def, choices, what) { name, CONFIG_CHOICE, def, 0, 0, choices, NULL, what }

const struct config_setting config_settings[] = {
	TEXT("application", "deferred", "name of the application; names the default pidfile"),
	{ "database.conninfo", CONFIG_TEXT, NULL, 0, 0, NULL, "DEFERRED_DB", "libpq connection string" },
	{ "database.shard", CONFIG_TEXT, NULL, 0, 0, NULL, "DEFERRED_SHARD", "of several databases (sections shard) the one to use; none: conninfo" },
	NUMBER("database.answer_timeout", MS, "30s", 0, DAY, "how long the library and the command deferred wait for one answer of the server; 0: for ever"),
	NUMBER("database.lock_timeout", MS, "0", 0, DAY, "and of that for a lock; 0: no limit of its own"),

	NUMBER("cnt", INT, "1", 0, 1e9, "attempts a run makes at most; 0: until nothing is ready; with loop 0, for ever, unless set"),
	TEXT("pidfile", NULL, "file whose kernel lock keeps one copy running; none: /run/defer_APPLICATION, with a shard /run/defer_APPLICATION_SHARD"),
	CHOICE("if_running", "replace", "replace|skip", "what a start does while the previous copy runs"),
	TEXT("queue", NULL, "queues to serve, separated by commas; none: all of them"),
	NUMBER("runners", RANGE, "1", 1, 256, "child processes that run functions; a range such as 1..16 follows the queue"),
	TEXT("balance", NULL, "GROUP:RANGE: workers of the group differ by at most RANGE attempts; none: each works as it can"),
	NUMBER("runner_idle", MS, "1min", 0, DAY,
	       "with loop, or a range of runners: those that were not needed for so long end, but for one; 0: never"),
	TEXT("plugin_dir", NULL, "folder of the plugins; none: where they were built or installed"),
	TEXT("user", NULL, "user that functions run as when check_deferred is started as root"),
	FLAG("allow_root", "0", "1: started as root without user, functions run as root; 0: such a start is refused"),

	FLAG("loop", "0", "1: run as a service: when nothing is ready wait for more"),
	NUMBER("interval_floor", MS, "1s", 1, DAY, "with loop: sleep after the first look that found nothing"),
	NUMBER("interval_ceiling", MS, "1min", 1, DAY, "with loop: longest sleep"),
	NUMBER("exponent", REAL, "2", 1, 100, "with loop: factor from one sleep to the next"),
	FLAG("gradual_decrease", "0", "1: after a hit the sleep is divided by the exponent; 0: it is back at interval_floor"),
	FLAG("listen", "0", "1: with loop: have the database wake us as soon as there is a job"),

	NUMBER("window", INT, "100", 1, 1e6, "fewer jobs than that are drawn at random among the first so many that are ready"),
	NUMBER("batch", INT, "500", 1, 1e4, "most jobs claimed at once"),
	NUMBER("seed", INT, "0", 0, 9.2e18, "seed of the random choice, for a reproducible draw; 0: from the kernel"),
	NUMBER("lease", MS, "60s", SECOND, DAY, "a claim lasts that long unless renewed (visibility timeout)"),
	NUMBER("timeout", MS, "10min", 0, 30 * DAY, "limit of one attempt where neither job nor function says; 0: none"),
	NUMBER("grace", MS, "5s", 0, HOUR, "what running jobs get to finish after SIGTERM"),
	NUMBER("kill_after", MS, "200ms", 0, MINUTE, "from SIGTERM to SIGKILL of a runner whose time is up; a cancelled job gets as long"),
	NUMBER("reconnect", MS, "10s", 0, HOUR, "how long a run with results in hand tries to reach a lost server"),
	NUMBER("max_attempts", INT, "25", 1, 1e6, "attempts before a job is dead, where neither job nor function says"),
	NUMBER("backoff_floor", MS, "10s", 1, 30 * DAY, "delay after the first failed attempt"),
	NUMBER("backoff_ceiling", MS, "1h", 1, 365 * DAY, "longest delay between attempts"),
	NUMBER("backoff_exponent", REAL, "2", 1, 100, "factor from one delay to the next"),

	CHOICE("isolate", "child", "child|job", "job: each attempt runs in a process of its own"),
	NUMBER("memory_limit", BYTES, "0", 0, 0x1p50, "address space of a runner; 0: no limit"),
	NUMBER("files_limit", INT, "1024", 16, 1e6, "open files of a runner"),
	NUMBER("processes_limit", INT, "4096", 0, 1e6, "processes and threads of the user of runners, all together; 0: no limit"),
	CHOICE("cgroup", "auto", "auto|1|0", "each runner lives in a control group of its own, below that of check_deferred: auto, where that can be had; 1, with limits too, where it is delegated"),
	NUMBER("cpu_limit", MS, "0", 0, 30 * DAY, "processor time of an attempt, needs isolate = job; 0: no limit"),
	NUMBER("params_max_bytes", BYTES, "1m", 1, 1e9, "largest params the library sends"),
	CHOICE("log_level", "info", "error|warning|info|debug", "least important lines that are logged"),
	CHOICE("log_format", "text", "text|json|logfmt", "json: each line of the log is an object; logfmt: it is name=value pairs"),
	TEXT("timezone", "UTC", "time zone of schedules that name none"),

	TEXT("mail.host", "localhost", "SMTP server"),
	NUMBER("mail.port", INT, "0", 0, 65535, "its port; 0: 25, with starttls 587, with tls 465"),
	CHOICE("mail.tls", "none", "none|starttls|tls", "how the connection is encrypted"),
	TEXT("mail.user", NULL, "user to log in as; none: no login"),
	TEXT("mail.password", NULL, "password of that user"),
	TEXT("mail.password_file", NULL, "file whose first line is the password"),
	FLAG("mail.plain_login", "0", "1: log in on a connection that is not encrypted, too; 0: such a login is refused"),
	TEXT("mail.from", NULL, "sender where the mail names none: an address, or \"Name <address>\""),
	TEXT("mail.to", NULL, "every mail goes to this address instead of its recipients (for staging)"),
	FLAG("mail.defer", "0", "1: deferred_send_mail() stores a job; 0: it sends at once"),
	NUMBER("mail.timeout", MS, "1min", SECOND, HOUR, "longest time to send one mail"),
	TEXT("mail.ca_file", NULL, "certificates to trust; none: those of the system"),
	TEXT("mail.attachment_dir", NULL, "folder that files sent by path must lie below; none: no file is sent or removed by path"),
	TEXT("mail.helo", NULL, "name given in EHLO; none: the host name"),
	NUMBER("mail.recipients_max", INT, "100", 1, 10000, "most recipients of one mail"),

	TEXT("alert.command", NULL, "program that is told what is wrong, by its environment and as JSON; none: no program"),
	TEXT("alert.mail_to", NULL, "who is told by mail, addresses separated by commas; none: nobody"),
	TEXT("alert.queue", "alert", "queue of the jobs that tell it"),
	NUMBER("alert.timeout", MS, "30s", SECOND, HOUR, "limit of the command"),
	NUMBER("alert.repeat", MS, "4h", HOUR, 30 * DAY, "what stays wrong is told again after that"),
	NUMBER("alert.late", MS, "15min", 0, 30 * DAY, "a queue whose first job has been ready for so long is told; 0: never"),
	TEXT("alert.late_queues", NULL, "queues that may be late by another time, as in \"mail:2min, reports:6h\"; none: alert.late is for all"),
	NUMBER("alert.dead", INT, "1", 0, 1e9, "so many jobs of a function that died are told; 0: never"),
	NUMBER("alert.failing", REAL, "0.2", 0, 1, "a function of whose attempts this share fails, and more than did before, is told; 0: never"),
	NUMBER("alert.build_ratio", REAL, "1.5", 0, 1000, "a build that is so many times slower or bigger than the one before is told; 0: never"),

	NUMBER("breaker.crashes", INT, "20", 0, 1e9, "a function whose last attempts, so many, all crashed is paused; 0: never"),
	NUMBER("breaker.retry", MS, "5min", SECOND, DAY, "while it is, one attempt is made that often"),

	TEXT("http.listen", "127.0.0.1:10001", "where deferred_http serves HTTP: HOST:PORT, or PORT on loopback, separated by commas"),
	TEXT("http.listen_tls", NULL, "where it serves HTTPS; none: nowhere"),
	TEXT("http.listen_metrics", NULL, "where it serves /metrics alone, to whoever asks, on loopback or at a Unix socket; none: nowhere"),
	TEXT("http.tls_certificate", NULL, "certificate that is shown, with those it was signed by, in PEM"),
	TEXT("http.tls_key", NULL, "key of that certificate, in PEM"),
	TEXT("http.key_file", NULL, "file with the key that encrypts the keys of accounts; none: " DEFERRED_SYSCONFDIR "/deferred/http.key"),
	TEXT("http.access_log", NULL, "file that each request is logged to, as a line of JSON; \"-\": standard output; none: nowhere"),
	NUMBER("http.db_connections", INT, "2", 1, 64, "database connections that put, get, update and delete messages"),
	NUMBER("http.threads", INT, "1", 1, 64, "threads that serve the connections of one address listened on"),
	NUMBER("http.connections_max", INT, "4096", 1, 1e6, "connections open at the same time"),
	NUMBER("http.connections_per_address", INT, "2048", 0, 1e6, "those of one client address; 0: no limit"),
	NUMBER("http.idle_timeout", MS, "75s", SECOND, DAY, "a connection without a request is closed after that"),
	NUMBER("http.header_timeout", MS, "10s", SECOND, HOUR, "limit from the request line to the end of the headers"),
	NUMBER("http.body_timeout", MS, "30s", SECOND, HOUR, "limit from there to the end of the body"),
	NUMBER("http.send_timeout", MS, "1min", SECOND, HOUR, "limit for a client to take the answer"),

	TEXT("web.listen", "127.0.0.1:10003", "where deferred_web serves HTTP: HOST:PORT, PORT on loopback, or /PATH of a Unix socket, separated by commas"),
	TEXT("web.listen_tls", NULL, "where it serves HTTPS; none: nowhere"),
	TEXT("web.listen_metrics", NULL, "where it serves /metrics alone, to whoever asks, on loopback or at a Unix socket; none: nowhere"),
	TEXT("web.tls_certificate", NULL, "certificate that is shown, with those it was signed by, in PEM"),
	TEXT("web.tls_key", NULL, "key of that certificate, in PEM; none: in the same file"),
	TEXT("web.access_log", NULL, "file that each request is logged to, as a line of JSON; \"-\": standard output; none: nowhere"),
	CHOICE("web.auth", "postgres", "postgres|proxy|none|peer", "who visitors are: a login of the database, whom a proxy says, nobody in particular, who may look, or the user at a Unix socket"),
	TEXT("web.hosts", NULL, "names that it is reached by, beside those of loopback, separated by commas"),
	TEXT("web.proxies", NULL, "addresses of proxies that are trusted, separated by commas; one at a Unix socket always is"),
	TEXT("web.users", NULL, "with web.auth proxy or peer: who has which role, as in \"ann:deferred_operator, bob:deferred_viewer\""),
	FLAG("web.read_only", "0", "1: no buttons, for nobody"),
	TEXT("web.hide_params", "send_mail", "functions whose params, errors and results operators alone see, separated by commas"),
	NUMBER("web.db_connections", INT, "4", 1, 32, "pages that are made at the same time, each with a database connection"),

	TEXT("sample.dir", NULL, "folder below which the sample function append writes; none: it writes nothing"),
	{ NULL, CONFIG_TEXT, NULL, 0, 0, NULL, NULL, NULL }
};
