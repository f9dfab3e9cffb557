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

#define TEXT(name, def, what) \
	{ \
		name, CONFIG_TEXT, def, 0, 0, NULL, NULL, what \
	}
#define NUMBER(name, type, def, min, max, what) \
	{ \
		name, CONFIG_##type, def, min, max, NULL, NULL, what \
	}
#define FLAG(name, def, what) \
	{ \
		name, CONFIG_FLAG, def, 0, 0, NULL, NULL, what \
	}
#define CHOICE(name, def, choices, what) \
	{ \
		name, CONFIG_CHOICE, def, 0, 0, choices, NULL, what \
	}

const struct config_setting config_settings[] = {
	TEXT("application", "deferred", "name of the application; names the default pidfile"),
	{ "database.conninfo", CONFIG_TEXT, NULL, 0, 0, NULL, "DEFERRED_DB", "libpq connection string" },
	{ "database.shard", CONFIG_TEXT, NULL, 0, 0, NULL, "DEFERRED_SHARD",
	  "which of several databases (sections shard) to use; empty: conninfo" },
	NUMBER("database.answer_timeout", MS, "30s", 0, DAY, "limit for one answer of the server; 0 disables it"),
	NUMBER("database.lock_timeout", MS, "0", 0, DAY, "limit for a lock; 0 disables it"),
	TEXT("spool", NULL, "folder that keeps calls while the server cannot be reached; empty: none"),

	NUMBER("cnt", INT, "1", 0, 1e9, "attempts per run; 0 runs until no job is ready, with loop without end"),
	TEXT("pidfile", NULL, "file whose kernel lock keeps one copy running; empty: /run/defer_APPLICATION"),
	CHOICE("if_running", "replace", "replace|skip", "reaction to a copy that still runs"),
	TEXT("queue", NULL, "queues to serve, separated by commas; empty: all"),
	NUMBER("runners", RANGE, "1", 1, 256,
	       "child processes that run functions; a range such as 1..16 follows the queue"),
	TEXT("balance", NULL, "GROUP:RANGE keeps the workers of a group within RANGE attempts of each other"),
	NUMBER("runner_idle", MS, "1min", 0, DAY,
	       "stop runners that have been idle for this long, except one; 0 keeps them"),
	TEXT("plugin_dir", NULL, "folder of the plugins; empty: where they were built or installed"),
	TEXT("user", NULL, "user that functions run as if check_deferred is started as root"),
	FLAG("allow_root", "0", "1: functions may run as root; 0: refuse a start as root without user"),

	FLAG("loop", "0", "1: run as a service that waits for more jobs"),
	NUMBER("interval_floor", MS, "1s", 1, DAY, "with loop: the sleep after the first poll that found nothing"),
	NUMBER("interval_ceiling", MS, "1min", 1, DAY, "with loop: the longest sleep"),
	NUMBER("exponent", REAL, "2", 1, 100, "with loop: the factor from one sleep to the next"),
	FLAG("gradual_decrease", "0",
	     "1: a poll that found a job divides the sleep by exponent instead of resetting it"),
	FLAG("listen", "0", "1: with loop, let the database wake the worker"),
	TEXT("health.listen", NULL, "with loop: addresses that answer the probes /live and /ready; empty: none"),

	NUMBER("window", INT, "100", 1, 1e6, "smaller claims draw jobs at random from that many first ready ones"),
	NUMBER("batch", INT, "500", 1, 1e4, "most jobs per claim"),
	NUMBER("seed", INT, "0", 0, 9.2e18, "seed of the random choice; 0 takes one from the kernel"),
	NUMBER("lease", MS, "60s", SECOND, DAY, "duration of a claim unless it is renewed (visibility timeout)"),
	NUMBER("timeout", MS, "10min", 0, 30 * DAY,
	       "limit of one attempt if neither job nor function sets one; 0 disables it"),
	NUMBER("grace", MS, "5s", 0, HOUR, "time that running functions get after SIGTERM"),
	NUMBER("kill_after", MS, "200ms", 0, MINUTE, "time from SIGTERM to SIGKILL for a function whose time is up"),
	NUMBER("reconnect", MS, "10s", 0, HOUR, "how long a run with results in hand tries to reach a lost server"),
	NUMBER("max_attempts", INT, "25", 1, 1e6,
	       "attempts before a job is dead, if neither job nor function sets a number"),
	NUMBER("backoff_floor", MS, "10s", 1, 30 * DAY, "delay after the first failed attempt"),
	NUMBER("backoff_ceiling", MS, "1h", 1, 365 * DAY, "longest delay between attempts"),
	NUMBER("backoff_exponent", REAL, "2", 1, 100, "factor from one delay to the next"),

	CHOICE("isolate", "child", "child|job", "job: each attempt runs in a process of its own"),
	NUMBER("memory_limit", BYTES, "0", 0, 0x1p50, "address space of a runner; 0 disables the limit"),
	NUMBER("files_limit", INT, "1024", 16, 1e6, "open files of a runner"),
	NUMBER("processes_limit", INT, "4096", 0, 1e6,
	       "processes and threads of the user of runners; 0 disables the limit"),
	CHOICE("cgroup", "auto", "auto|1|0", "control groups of runners; 1 adds limits and needs a delegated group"),
	NUMBER("cpu_limit", MS, "0", 0, 30 * DAY,
	       "processor time of an attempt, needs isolate = job; 0 disables the limit"),
	NUMBER("params_max_bytes", BYTES, "1m", 1, 1e9, "largest params the library sends"),
	CHOICE("log_level", "info", "error|warning|info|debug", "least important lines that are logged"),
	CHOICE("log_format", "text", "text|json|logfmt", "format of log lines"),
	TEXT("timezone", "UTC", "time zone of schedules without one"),

	TEXT("mail.host", "localhost", "SMTP server"),
	NUMBER("mail.port", INT, "0", 0, 65535, "port of the server; 0 means 25, with starttls 587, with tls 465"),
	CHOICE("mail.tls", "none", "none|starttls|tls", "encryption of the connection"),
	TEXT("mail.user", NULL, "user name for the login; empty: no login"),
	TEXT("mail.password", NULL, "password of that user"),
	TEXT("mail.password_file", NULL, "file whose first line is the password"),
	FLAG("mail.plain_login", "0", "1: log in on a connection that is not encrypted"),
	TEXT("mail.from", NULL, "sender of mails that name none: an address, or \"Name <address>\""),
	TEXT("mail.to", NULL, "send every mail to this address instead of its recipients (for staging)"),
	FLAG("mail.defer", "0", "1: deferred_send_mail() stores a job; 0: it sends at once"),
	NUMBER("mail.timeout", MS, "1min", SECOND, HOUR, "longest time to send one mail"),
	TEXT("mail.ca_file", NULL, "certificates to trust, in PEM; empty: those of the system"),
	TEXT("mail.attachment_dir", NULL, "folder of files that mails attach by path; empty: none"),
	TEXT("mail.helo", NULL, "name in EHLO; empty: the host name"),
	NUMBER("mail.recipients_max", INT, "100", 1, 10000, "most recipients of one mail"),

	TEXT("alert.command", NULL, "program that is run for each alert; empty: none"),
	TEXT("alert.mail_to", NULL, "addresses that get alerts by mail, separated by commas; empty: none"),
	TEXT("alert.queue", "alert", "queue of the jobs that deliver alerts"),
	NUMBER("alert.timeout", MS, "30s", SECOND, HOUR, "time limit of the command"),
	NUMBER("alert.repeat", MS, "4h", HOUR, 30 * DAY, "report a problem that lasts again after this time"),
	NUMBER("alert.late", MS, "15min", 0, 30 * DAY,
	       "alert when the first job of a queue has been ready for this long; 0 disables it"),
	TEXT("alert.late_queues", NULL, "queues with a limit of their own, as in \"mail:2min, reports:6h\""),
	NUMBER("alert.dead", INT, "1", 0, 1e9, "alert when this many jobs of a function have died; 0 disables it"),
	NUMBER("alert.failing", REAL, "0.2", 0, 1,
	       "alert when this share of attempts fails and the share has risen; 0 disables it"),
	NUMBER("alert.build_ratio", REAL, "1.5", 0, 1000,
	       "alert when a build is this many times slower or bigger; 0 disables it"),

	NUMBER("breaker.crashes", INT, "20", 0, 1e9,
	       "pause a function after this many consecutive crashes; 0 disables it"),
	NUMBER("breaker.retry", MS, "5min", SECOND, DAY, "while a function is paused, try one job this often"),

	TEXT("http.listen", "127.0.0.1:10001",
	     "addresses for HTTP: HOST:PORT, or PORT on loopback, separated by commas"),
	TEXT("http.listen_tls", NULL, "addresses for HTTPS; empty: none"),
	TEXT("http.listen_metrics", NULL, "addresses that serve only /metrics, without a login; empty: none"),
	TEXT("http.tls_certificate", NULL, "certificate, followed by its chain, in PEM"),
	TEXT("http.tls_key", NULL, "key of the certificate, in PEM"),
	TEXT("http.key_file", NULL,
	     "key that encrypts the keys of accounts; empty: " DEFERRED_SYSCONFDIR "/deferred/http.key"),
	TEXT("http.access_log", NULL,
	     "file that gets one line of JSON per request; \"-\": standard output; empty: none"),
	NUMBER("http.db_connections", INT, "2", 1, 64,
	       "database connections that put, get, update and delete messages"),
	NUMBER("http.threads", INT, "1", 1, 64, "threads per address that is listened on"),
	NUMBER("http.connections_max", INT, "4096", 1, 1e6, "most open connections"),
	NUMBER("http.connections_per_address", INT, "2048", 0, 1e6,
	       "most open connections of one client address; 0 disables the limit"),
	NUMBER("http.idle_timeout", MS, "75s", SECOND, DAY, "close a connection without a request after this time"),
	NUMBER("http.header_timeout", MS, "10s", SECOND, HOUR, "limit from the request line to the end of the headers"),
	NUMBER("http.body_timeout", MS, "30s", SECOND, HOUR, "limit from the headers to the end of the body"),
	NUMBER("http.send_timeout", MS, "1min", SECOND, HOUR, "limit for a client to read the answer"),
	TEXT("http.allow", NULL, "networks that the function http may reach besides public addresses"),
	TEXT("http.secrets", NULL, "secrets of the function http, as in \"shop:/etc/deferred/shop.secret\""),
	TEXT("http.ca_file", NULL, "certificates that the function http trusts, in PEM; empty: those of the system"),

	TEXT("web.listen", "127.0.0.1:10003",
	     "addresses for HTTP: HOST:PORT, PORT on loopback, or /PATH of a Unix socket"),
	TEXT("web.listen_tls", NULL, "addresses for HTTPS; empty: none"),
	TEXT("web.listen_metrics", NULL, "addresses that serve only /metrics, without a login; empty: none"),
	TEXT("web.tls_certificate", NULL, "certificate, followed by its chain, in PEM"),
	TEXT("web.tls_key", NULL, "key of the certificate, in PEM; empty: in the same file"),
	TEXT("web.access_log", NULL,
	     "file that gets one line of JSON per request; \"-\": standard output; empty: none"),
	CHOICE("web.auth", "postgres", "postgres|proxy|none|peer", "identification of visitors"),
	TEXT("web.hosts", NULL, "host names besides those of loopback, separated by commas"),
	TEXT("web.proxies", NULL, "addresses of trusted proxies, separated by commas"),
	TEXT("web.users", NULL, "with auth proxy or peer: roles of visitors, as in \"ann:deferred_operator\""),
	FLAG("web.read_only", "0", "1: show no buttons"),
	TEXT("web.hide_params", "send_mail,http", "functions whose params and texts only operators see"),
	NUMBER("web.db_connections", INT, "4", 1, 32,
	       "pages that are made at the same time, each with a database connection"),

	TEXT("otlp.endpoint", NULL, "URL of the collector that gets spans; empty: deferred spans prints them"),
	TEXT("otlp.headers", NULL, "headers of each request, as in \"api-key=SECRET\"; empty: none"),
	NUMBER("otlp.timeout", MS, "10s", SECOND, HOUR, "limit for the answer of the collector"),

	TEXT("sample.dir", NULL, "folder below which the function append writes; empty: it writes nothing"),
	{ NULL, CONFIG_TEXT, NULL, 0, 0, NULL, NULL, NULL },
};
