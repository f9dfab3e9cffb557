/* SPDX-License-Identifier: MIT */
/*
 * deferred_web - the operators' pages.
 *
 * The way of a request: http_connection_advance (lib/http/http_connection.c) receives it. check_request (web_app.c)
 * finds out who sends it and which page it asks for. A thread of the pool (web_pool.c) takes it. There answer_request
 * (web_app.c) opens a session of the visitor, and calls the function of the route (routes.c).
 */
#include "base/log.h"
#include "http/server.h"
#include "http/sockets.h"
#include "http/tls.h"
#include "port/config.h"
#include "program/daemon.h"
#include "program/program.h"
#include "server/web_app.h"
#include "server/web_cache.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>
#include <unistd.h>

#define CONNECTIONS_MAX 512
#define CONNECTIONS_PER_ADDRESS 256 /* a proxy has no such limit */
#define SECOND_MS 1000

static const struct program_option options[] = {
	{ "listen", "ADDR", "HTTP at HOST:PORT, PORT or /PATH", .setting = "web.listen", .empty = true },
	{ "listen-tls", "ADDR", "HTTPS, as above", .setting = "web.listen_tls", .def = "none", .empty = true },
	{ "listen-metrics", "ADDR", "only /metrics, without a login", .setting = "web.listen_metrics", .def = "none",
	  .empty = true },
	{ "tls-certificate", "FILE", "certificate and its chain, in PEM", .setting = "web.tls_certificate" },
	{ "tls-key", "FILE", "key of the certificate, in PEM", .setting = "web.tls_key", .def = "the same file" },
	{ "auth", "HOW", "who visitors are", .setting = "web.auth" },
	{ "read-only", NULL, "show pages without buttons", .setting = "web.read_only" },
	{ "access-log", "FILE", "a line per request; -: standard output", .setting = "web.access_log", .def = "none",
	  .empty = true },
	{ "db", "CONNINFO", "connection string of libpq", .setting = "database.conninfo" },
	{ "shard", "NAME", "which database of the config file", .setting = "database.shard" },
	{ "log-level", "LEVEL", "lines to log", .setting = "log_level" },
	{ 0 },
};

static const struct program deferred_web = {
	.name = "deferred_web",
	.about = "Shows queues and jobs to people, and lets operators act on them.",
	.manual = "deferred_web(8)",
	.version = program_version,
	.options = options,
};

struct run {
	const struct config *config;
	struct web web, metrics;
	struct listen_sockets sockets;
	struct server server;
};

/* Passwords are sent over TLS only, and pages without a password stay on this machine. */
static int check_socket(const struct run *run, const struct web *web, const struct listen_socket *s,
			struct deferred_error *err)
{
	if (s->tls && !config_text(run->config, "web.tls_certificate"))
		return error_set(err, DEFERRED_ECONFIG, "listen",
				 "%s is for HTTPS, but setting 'web.tls_certificate' is missing\nset "
				 "web.tls_certificate and web.tls_key",
				 s->name);
	if (web->auth == WEB_PEER && !sockets_is_unix(s)) {
		error_set(err, DEFERRED_ECONFIG, "listen", "%s does not tell who connects, and web.auth is peer",
			  s->name);
		error_hint(err, "listen on a Unix socket: set web.listen to its path");
		return DEFERRED_ECONFIG;
	}
	if (sockets_is_local(s) || (web->auth == WEB_POSTGRES && s->tls) || web->auth == WEB_PROXY)
		return 0;
	if (web->only) {
		error_set(err, DEFERRED_ECONFIG, "listen",
			  "%s is open beyond this machine, and %s is for whoever asks there", s->name, web->only);
		error_hint(err,
			   "set web.listen_metrics to an address of loopback or a Unix socket; from elsewhere %s is "
			   "had by a login, at web.listen_tls",
			   web->only);
		return DEFERRED_ECONFIG;
	}
	error_set(err, DEFERRED_ECONFIG, "listen", "%s is open beyond this machine, and web.auth is %s%s", s->name,
		  web->auth == WEB_NONE ? "none" : "postgres",
		  web->auth == WEB_NONE ? "" : " without TLS: passwords could be read on the way");
	error_hint(err, "listen on loopback or a Unix socket, set web.listen_tls in place of web.listen, or let a "
			"proxy log people in");
	return DEFERRED_ECONFIG;
}

static int start_web_servers(struct run *run, struct deferred_error *err)
{
	struct server_setup setup = {
		.app = &web_app,
		.threads = 1,
		.connections_max = CONNECTIONS_MAX,
		.connections_per_address = run->web.auth == WEB_PROXY ? 0 : CONNECTIONS_PER_ADDRESS,
		.idle_ms = 75 * SECOND_MS,
		.header_ms = 10 * SECOND_MS,
		.body_ms = 10 * SECOND_MS,
		.send_ms = 60 * SECOND_MS,
	};

	for (int i = 0; i < run->sockets.len; i++) {
		struct listen_socket *s = &run->sockets.list[i];
		struct web *web = i < run->sockets.metrics ? &run->web : &run->metrics;

		if (check_socket(run, web, s, err) < 0)
			return DEFERRED_ECONFIG;
		setup.data = web;
		if (server_listen(&run->server, &setup, s, err) < 0)
			return DEFERRED_ESYSTEM;
		log_line(LOG_L_INFO, "listening on %s, %s%s%s", s->name, s->tls ? "HTTPS" : "HTTP",
			 web->only ? ", for nothing but " : "", web->only ? web->only : "");
	}
	return 0;
}

/* For programs without a login, at an address of their own, as deferred_viewer. They have a session of their own, so
 * they do not wait for pages, and pages do not wait for them. */
static int start_metrics(struct run *run, struct deferred_error *err)
{
	run->metrics = run->web;
	run->metrics.auth = WEB_NONE;
	run->metrics.only = "/metrics";
	run->metrics.pool = web_pool_start(&run->metrics, 1, &web_app_work, err);
	return run->metrics.pool ? 0 : err->code;
}

/* Returns 0, or an exit code with err. */
static int web_start(void *data, struct deferred_error *err)
{
	struct run *run = data;
	const struct config *config = run->config;
	const char *log = config_text(config, "web.access_log"),
		   *certificate = config_text(config, "web.tls_certificate");

	run->web = (struct web){
		.conninfo = config_text(config, "database.conninfo"),
		.hosts = config_text(config, "web.hosts"),
		.proxies = config_text(config, "web.proxies"),
		.users = config_text(config, "web.users"),
		.hide_params = config_text(config, "web.hide_params"),
		.timezone = config_text(config, "timezone"),
		.auth = (enum web_auth)config_int(config, "web.auth"),
		.read_only = config_flag(config, "web.read_only"),
	};
	if (getrandom(run->web.key, sizeof(run->web.key), 0) != (ssize_t)sizeof(run->web.key)) {
		error_errno(err, DEFERRED_ESYSTEM, "getrandom",
			    "cannot read random numbers\nthis kernel is too old: getrandom(2) is needed");
		return EX_OSERR;
	}
	if (certificate &&
	    tls_load(certificate, config_text(config, "web.tls_key") ? config_text(config, "web.tls_key") : certificate,
		     err) < 0)
		return EX_CONFIG;
	if (log && !(run->web.log = access_log_open(log, err)))
		return EX_CANTCREAT;
	if (sockets_open(&run->sockets, config, "web", err) < 0)
		return err->code == DEFERRED_ECONFIG ? EX_CONFIG : EX_OSERR;
	if (!(run->web.cache = web_cache_new(err)))
		return EX_OSERR;
	pthread_mutex_init(&run->web.missed_lock, NULL);
	run->web.pool = web_pool_start(&run->web, (int)config_int(config, "web.db_connections"), &web_app_work, err);
	if (!run->web.pool || (run->sockets.len > run->sockets.metrics && start_metrics(run, err) < 0))
		return EX_OSERR;
	if (start_web_servers(run, err) < 0)
		return err->code == DEFERRED_ECONFIG ? EX_CONFIG : EX_OSERR;
	return 0;
}

static int web_busy(void *data)
{
	return server_busy(&((struct run *)data)->server);
}

static void web_quiesce(void *data)
{
	server_quiesce(&((struct run *)data)->server);
}

static void web_flush(void *data, int patience_ms)
{
	access_log_flush(((struct run *)data)->web.log, patience_ms);
	log_flush(patience_ms);
}

static void web_tick(void *data)
{
	struct run *run = data;

	server_tick(&run->server);
	web_pool_tick(run->web.pool);
	if (run->metrics.pool)
		web_pool_tick(run->metrics.pool);
	web_cache_tick(run->web.cache);
	budget_trim();
	arena_reserve();
	web_flush(run, 0);
}

/* SIGHUP: the log may have been moved, or the certificate replaced. Other settings need a restart. */
static void web_reload(void *data)
{
	const struct run *run = data;
	const char *certificate = config_text(run->config, "web.tls_certificate"),
		   *key = config_text(run->config, "web.tls_key");
	struct deferred_error err = { 0 };

	if ((certificate && tls_load(certificate, key ? key : certificate, &err) < 0) ||
	    (run->web.log && access_log_reopen(run->web.log, &err) < 0))
		program_complain(&err, 0);
	else
		log_line(LOG_L_INFO, "certificate and access log reopened");
}

static void web_release(void *data)
{
	struct run *run = data;

	server_stop(&run->server);
	if (run->web.pool)
		web_pool_stop(run->web.pool);
	if (run->metrics.pool)
		web_pool_stop(run->metrics.pool);
	web_cache_free(run->web.cache);
	sockets_close(&run->sockets);
	web_flush(run, DAEMON_LAST_WORDS_MS);
	access_log_close(run->web.log);
	tls_free();
	explicit_bzero(run->web.key, sizeof(run->web.key));
}

static const struct daemon_work work = {
	.start = web_start,
	.tick = web_tick,
	.reload = web_reload,
	.quiesce = web_quiesce,
	.busy = web_busy,
	.flush = web_flush,
	.release = web_release,
};

int main(int argc, char **argv)
{
	struct program_line line;
	struct config *config = NULL;
	struct run run = { 0 };
	struct deferred_error err = { 0 };
	int rc;

	program_open_descriptors();
	program_keep_secrets();
	arena_reserve();
	signal(SIGPIPE, SIG_IGN);
	log_init(deferred_web.name, LOG_L_INFO);
	log_never_wait();
	rc = program_read_line(&line, &deferred_web, argc, argv);
	if (rc < 0) {
		rc = program_load_config(&line, &config, &err);
		if (rc != 0) {
			program_complain(&err, rc);
		} else {
			program_set_log_level(config);
			run.config = config;
			rc = daemon_run(&work, &run, config_int(config, "grace"));
		}
	}
	log_flush(DAEMON_LAST_WORDS_MS);
	config_free(config);
	program_free_line(&line);
	return rc;
}
