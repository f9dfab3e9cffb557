/* SPDX-License-Identifier: MIT */
/*
 * deferred_http - queues of the database for clients of the Azure Queue protocol.
 *
 * http_connection_advance() (lib/http/http_connection.c) reads a request. dispatch.c finds the operation and the
 * account. It calls message_ops.c, queue_ops.c or service_ops.c. batcher_submit() (batcher.c) runs the request together
 * with others, for example by store_message_put(). Then http_connection_advance() writes the answer.
 */
#include "api/api.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/dispatch.h"
#include "http/server.h"
#include "http/sockets.h"
#include "http/tls.h"
#include "port/config.h"
#include "program/daemon.h"
#include "program/program.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#define LARGE_BYTES (128 * 1024)           /* are given back to the system when they are freed */
#define RESERVED_FILES (64 + SERVER_SPARE) /* descriptors that are no connections */

static const struct program_option options[] = {
	{ "listen", "ADDR", "HTTP at HOST:PORT or PORT, a list", .setting = "http.listen", .empty = true },
	{ "listen-tls", "ADDR", "HTTPS, as above", .setting = "http.listen_tls", .def = "none", .empty = true },
	{ "listen-metrics", "ADDR", "only /metrics, without a login", .setting = "http.listen_metrics", .def = "none",
	  .empty = true },
	{ "tls-certificate", "FILE", "certificate and its chain, in PEM", .setting = "http.tls_certificate" },
	{ "tls-key", "FILE", "key of the certificate, in PEM", .setting = "http.tls_key" },
	{ "key-file", "FILE", "key that encrypts other keys", .setting = "http.key_file",
	  .def = DEFERRED_SYSCONFDIR "/deferred/http.key" },
	{ "access-log", "FILE", "a line per request; -: standard output", .setting = "http.access_log", .def = "none",
	  .empty = true },
	{ "db-connections", "N", "connections for messages", .setting = "http.db_connections" },
	{ "threads", "N", "threads per address", .setting = "http.threads" },
	{ "db", "CONNINFO", "connection string of libpq", .setting = "database.conninfo" },
	{ "shard", "NAME", "which database of the config file", .setting = "database.shard" },
	{ "log-level", "LEVEL", "lines to log", .setting = "log_level" },
	{ 0 },
};

static const struct program deferred_http = {
	.name = "deferred_http",
	.about = "Serves the queues of the database over the Azure Queue protocol.",
	.manual = "deferred_http(8)",
	.version = program_version,
	.options = options,
};

struct settings {
	const struct program_line *line;
	struct config *config;
};

/* Returns 0, or an exit code with err. */
static int read_http_settings(struct settings *s, struct deferred_error *err)
{
	const char *certificate, *key;
	int rc = program_load_config(s->line, &s->config, err);

	if (rc != 0)
		return rc;
	certificate = config_text(s->config, "http.tls_certificate");
	key = config_text(s->config, "http.tls_key");
	if (!certificate != !key || (config_text(s->config, "http.listen_tls") && !certificate)) {
		error_set(err, DEFERRED_ECONFIG, "config", "setting '%s' is missing",
			  certificate ? "http.tls_key" : "http.tls_certificate");
		error_hint(err, "HTTPS needs http.listen_tls, http.tls_certificate and http.tls_key");
		return EX_CONFIG;
	}
	return 0;
}

/* ---- running ---------------------------------------------------------------------------------- */

struct run {
	struct settings *settings;
	struct front front, metrics;
	struct listen_sockets sockets;
	struct server server;
};

static int load_certificate(const struct config *config, struct deferred_error *err)
{
	const char *certificate = config_text(config, "http.tls_certificate");

	return certificate ? tls_load(certificate, config_text(config, "http.tls_key"), err) : 0;
}

/* SIGHUP. Other settings need a restart. */
static void http_reload(void *data)
{
	struct run *run = data;
	struct settings fresh = { .line = run->settings->line };
	struct deferred_error err = { 0 };

	if (read_http_settings(&fresh, &err) != 0 || load_certificate(fresh.config, &err) < 0 ||
	    (run->front.log && access_log_reopen(run->front.log, &err) < 0)) {
		program_complain(&err, 0);
		log_line(LOG_L_ERROR, "settings not reloaded, the old ones stay");
		config_free(fresh.config);
	} else {
		for (const struct config_setting *s = config_settings; s->name; s++) {
			static const char *const taken[] = { "http.tls_certificate", "http.tls_key", "log_level" };
			const char *old = config_text(run->settings->config, s->name),
				   *new = config_text(fresh.config, s->name);
			bool is_ours = strncmp(s->name, "http.", 5) == 0 || strcmp(s->name, "database.conninfo") == 0;

			for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
				is_ours = is_ours && strcmp(s->name, taken[i]) != 0;
			if (is_ours && strcmp(old ? old : "", new ? new : "") != 0)
				log_line(LOG_L_WARNING, "setting '%s' has changed; hint: restart to apply it", s->name);
		}
		program_set_log_level(fresh.config);
		config_free(fresh.config);
		log_line(LOG_L_INFO, "settings reloaded");
	}
}

/* As many descriptors as connections need, or as many connections as there are descriptors. */
static int fit_connections(const struct config *config)
{
	int wanted = (int)config_int(config, "http.connections_max");
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return wanted;
	if (limit.rlim_cur < (rlim_t)wanted + RESERVED_FILES) {
		limit.rlim_cur = limit.rlim_max < (rlim_t)wanted + RESERVED_FILES ? limit.rlim_max
										  : (rlim_t)wanted + RESERVED_FILES;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= (rlim_t)wanted + RESERVED_FILES)
		return wanted;
	log_line(LOG_L_WARNING, "only %lld files may be open: http.connections_max is lowered",
		 (long long)limit.rlim_cur);
	return limit.rlim_cur > 2 * RESERVED_FILES ? (int)(limit.rlim_cur - RESERVED_FILES) : RESERVED_FILES;
}

static int start_http_servers(struct run *run, struct deferred_error *err)
{
	const struct config *config = run->settings->config;
	struct server_setup setup = {
		.app = &dispatch_app,
		.threads = (int)config_int(config, "http.threads"),
		.connections_max = fit_connections(config),
		.connections_per_address = (int)config_int(config, "http.connections_per_address"),
		.idle_ms = config_int(config, "http.idle_timeout"),
		.header_ms = config_int(config, "http.header_timeout"),
		.body_ms = config_int(config, "http.body_timeout"),
		.send_ms = config_int(config, "http.send_timeout"),
	};

	for (int i = 0; i < run->sockets.len; i++) {
		struct listen_socket *s = &run->sockets.list[i];
		bool metrics = i >= run->sockets.metrics;

		if (s->tls && !config_text(config, "http.tls_certificate")) {
			error_set(err, DEFERRED_ECONFIG, "listen", "%s is for HTTPS, but the certificate is missing",
				  s->name);
			error_hint(err, "set http.tls_certificate and http.tls_key");
			return DEFERRED_ECONFIG;
		}
		if (metrics && !sockets_is_local(s)) {
			error_set(err, DEFERRED_ECONFIG, "listen",
				  "%s is open beyond this machine, and metrics are for whoever asks there", s->name);
			error_hint(err, "set http.listen_metrics to an address of loopback or a Unix socket");
			return DEFERRED_ECONFIG;
		}
		if (!s->tls && !sockets_is_local(s))
			log_line(LOG_L_WARNING,
				 "%s speaks HTTP beyond this machine: signatures are safe, messages and tokens can be "
				 "read on the way",
				 s->name);
		setup.data = metrics ? &run->metrics : &run->front;
		if (server_listen(&run->server, &setup, s, err) < 0)
			return DEFERRED_ESYSTEM;
		log_line(LOG_L_INFO, "listening on %s, %s%s", s->name, s->tls ? "HTTPS" : "HTTP",
			 metrics ? ", for metrics" : "");
	}
	return 0;
}

/* Returns 0, or an exit code with err. */
static int http_start(void *data, struct deferred_error *err)
{
	struct run *run = data;
	const struct config *config = run->settings->config;
	const char *log = config_text(config, "http.access_log"), *conninfo = config_text(config, "database.conninfo");

	if (load_certificate(config, err) < 0)
		return EX_CONFIG;
	if (log && !(run->front.log = access_log_open(log, err)))
		return EX_CANTCREAT;
	if (sockets_open(&run->sockets, config, "http", err) < 0)
		return err->code == DEFERRED_ECONFIG ? EX_CONFIG : EX_OSERR;
	run->front.request_metrics = request_metrics_new();
	if (!run->front.request_metrics) {
		error_set(err, DEFERRED_ENOMEM, "metrics", "out of memory");
		return EX_OSERR;
	}
	snprintf(run->front.keep_alive, sizeof(run->front.keep_alive), "timeout=%lld",
		 (long long)config_int(config, "http.idle_timeout") / 1000);
	run->front.account_cache = account_cache_start(conninfo, config_key_file(config), err);
	if (!run->front.account_cache)
		return EX_CONFIG;
	run->front.batcher = batcher_start(conninfo, (int)config_int(config, "http.db_connections"), err);
	if (!run->front.batcher)
		return EX_OSERR;
	run->front.api = &api_front;
	run->front.waiter = waiter_start(conninfo, err);
	if (!run->front.waiter)
		return EX_OSERR;
	run->metrics = (struct front){ .batcher = run->front.batcher,
				       .account_cache = run->front.account_cache,
				       .request_metrics = run->front.request_metrics,
				       .log = run->front.log,
				       .metrics_only = true };
	strcpy(run->metrics.keep_alive, run->front.keep_alive);
	if (start_http_servers(run, err) < 0)
		return err->code == DEFERRED_ECONFIG ? EX_CONFIG : EX_OSERR;
	return 0;
}

static int http_busy(void *data)
{
	return server_busy(&((struct run *)data)->server);
}

static void http_quiesce(void *data)
{
	struct run *run = data;

	server_quiesce(&run->server);
	waiter_quiesce(run->front.waiter);
}

static void http_flush(void *data, int patience_ms)
{
	access_log_flush(((struct run *)data)->front.log, patience_ms);
	log_flush(patience_ms);
}

static void http_tick(void *data)
{
	struct run *run = data;

	server_tick(&run->server);
	batcher_expire(run->front.batcher);
	budget_trim();
	arena_reserve();
	http_flush(run, 0);
}

/* In an order in which nothing wakes what was freed. */
static void http_release(void *data)
{
	struct run *run = data;

	if (run->front.waiter)
		waiter_stop(run->front.waiter);
	server_stop(&run->server);
	if (run->front.batcher)
		batcher_stop(run->front.batcher);
	if (run->front.account_cache)
		account_cache_stop(run->front.account_cache);
	sockets_close(&run->sockets);
	http_flush(run, DAEMON_LAST_WORDS_MS);
	access_log_close(run->front.log);
	request_metrics_free(run->front.request_metrics);
	tls_free();
}

static const struct daemon_work work = {
	.start = http_start,
	.tick = http_tick,
	.reload = http_reload,
	.quiesce = http_quiesce,
	.busy = http_busy,
	.flush = http_flush,
	.release = http_release,
};

int main(int argc, char **argv)
{
	struct program_line line;
	struct settings settings = { .line = &line };
	struct run run = { .settings = &settings };
	struct deferred_error err = { 0 };
	int rc;

	program_open_descriptors();
	program_keep_secrets();
	/* Said once, it stays: else the first large answer that is freed would keep the memory of all later ones. */
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	arena_reserve();
	signal(SIGPIPE, SIG_IGN);
	log_init(deferred_http.name, LOG_L_INFO);
	log_never_wait();
	rc = program_read_line(&line, &deferred_http, argc, argv);
	if (rc < 0) {
		rc = read_http_settings(&settings, &err);
		if (rc != 0) {
			program_complain(&err, rc);
		} else {
			program_set_log_level(settings.config);
			rc = daemon_run(&work, &run, config_int(settings.config, "grace"));
		}
	}
	log_flush(DAEMON_LAST_WORDS_MS);
	config_free(settings.config);
	program_free_line(&line);
	return rc;
}
