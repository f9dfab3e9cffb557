/* SPDX-License-Identifier: MIT */
#include "probes.h"

#include "base/clock.h"
#include "base/log.h"
#include "http/server.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define CONNECTIONS_MAX 16
#define CLIENT_MS 5000
/* The kernel frees the pidfile of a process before its sockets, so its address may be in use for another moment. */
#define TAKEOVER_NS (5 * NS_PER_S)
#define TAKEOVER_STEP_NS (20 * NS_PER_MS)
#define ANSWER_MAX_MS 10000

static struct {
	const struct worker_pulse *pulse;
	uint64_t started_ns, lease_ns, answer_ns;
	struct listen_sockets sockets;
	struct server server;
} probes;

/* One request and its answer. */
struct probe {
	struct arena arena;
	struct request request;
	struct reply reply;
	struct budget_hold hold;
	bool awaits_body;
};

/* ---- the state of the worker ------------------------------------------------------------------- */

static const char *seconds_text(struct probe *p, const char *what, uint64_t since_ns, uint64_t now)
{
	return arena_printf(&p->arena, "%s for %.0f s", what, (double)(now - since_ns) / (double)NS_PER_S);
}

/* Has a moment passed that long ago? The worker may have shown a later one than now. */
static bool is_over(uint64_t since_ns, uint64_t limit_ns, uint64_t now)
{
	return now > since_ns && now - since_ns > limit_ns;
}

/* Returns NULL, or the reason why a restart would help. After a lease without a turn others may have the jobs. */
static const char *why_not_live(struct probe *p, uint64_t now)
{
	uint64_t turned_ns = atomic_load(&probes.pulse->turned_ns);

	if (turned_ns == 0)
		return is_over(probes.started_ns, probes.lease_ns, now)
			       ? seconds_text(p, "the worker has been starting", probes.started_ns, now)
			       : NULL;
	return is_over(turned_ns, probes.lease_ns, now)
		       ? seconds_text(p, "the main loop has not turned", turned_ns, now)
		       : NULL;
}

/* Returns NULL, or the reason why this worker does not run jobs now. */
static const char *why_not_ready(struct probe *p, uint64_t now)
{
	const struct worker_pulse *pulse = probes.pulse;
	uint64_t lost_ns = atomic_load(&pulse->lost_ns), asked_ns = atomic_load(&pulse->asked_ns);
	const char *why = why_not_live(p, now);

	if (why)
		return why;
	if (atomic_load(&pulse->turned_ns) == 0)
		return "the worker is starting";
	if (atomic_load(&pulse->stopping))
		return "the worker is stopping";
	if (lost_ns != 0)
		return seconds_text(p, "no connection to the database", now > lost_ns ? lost_ns : now, now);
	if (asked_ns != 0 && is_over(asked_ns, probes.answer_ns, now))
		return seconds_text(p, "no answer of the database", asked_ns, now);
	return atomic_load(&pulse->fenced) ? "leases could not be renewed in time" : NULL;
}

/* ---- requests ---------------------------------------------------------------------------------- */

static void probe_begin(void *exchange, void *data, struct served *parts)
{
	struct probe *p = exchange;

	(void)data;
	reply_init(&p->reply, &p->arena);
	*parts = (struct served){ &p->arena, &p->request, &p->reply, &p->hold, &p->awaits_body };
}

static void probe_headers(void *exchange)
{
	request_end(&((struct probe *)exchange)->request);
}

static void probe_answer(struct probe *p, int status, const char *text)
{
	p->reply.status = status;
	reply_header(&p->reply, "Content-Type", "text/plain; charset=utf-8");
	reply_header(&p->reply, "Cache-Control", "no-store");
	buf_printf(&p->reply.body, "%s\n", text);
}

static void probe_refuse(void *exchange, enum fault fault)
{
	probe_answer(exchange, fault_info(fault)->status, fault_info(fault)->message);
}

/* A body is not read: an answer that comes before it makes the server drop the body. */
static enum served_step probe_step(void *exchange)
{
	struct probe *p = exchange;
	const struct request *r = &p->request;
	bool live = strcmp(r->raw_path, "/live") == 0, ready = strcmp(r->raw_path, "/ready") == 0;
	const char *why;

	if (r->fault != FAULT_NONE) {
		probe_refuse(p, r->fault);
	} else if (!live && !ready) {
		probe_answer(p, 404, "only /live and /ready are here");
	} else if (!(r->verb & (VERB_GET | VERB_HEAD))) {
		reply_header(&p->reply, "Allow", "GET, HEAD");
		probe_answer(p, 405, "only GET and HEAD are allowed");
	} else {
		why = live ? why_not_live(p, clock_ns()) : why_not_ready(p, clock_ns());
		probe_answer(p, why ? 503 : 200, why ? why : live ? "live" : "ready");
	}
	return SERVED_ANSWER;
}

static void probe_log(void *exchange, size_t bytes_out, bool cut)
{
	(void)exchange;
	(void)bytes_out;
	(void)cut;
}

static void probe_end(void *exchange)
{
	struct probe *p = exchange;

	reply_clear(&p->reply);
	arena_clear(&p->arena);
	budget_release(&p->hold);
}

/* ---- start and end ----------------------------------------------------------------------------- */

static int open_addresses(const struct config *config, struct deferred_error *err)
{
	const struct timespec pause = { 0, TAKEOVER_STEP_NS };
	uint64_t until_ns = clock_ns() + TAKEOVER_NS;
	int rc;

	while ((rc = sockets_open_setting(&probes.sockets, config, "health", "listen", err)) == DEFERRED_ESYSTEM &&
	       clock_ns() < until_ns) {
		sockets_close(&probes.sockets);
		error_clear(err);
		nanosleep(&pause, NULL);
	}
	return rc;
}

int probes_start(const struct config *config, const struct worker_pulse *pulse, struct deferred_error *err)
{
	static const struct server_app app = {
		.exchange_bytes = sizeof(struct probe),
		.begin = probe_begin,
		.headers = probe_headers,
		.step = probe_step,
		.refuse = probe_refuse,
		.log = probe_log,
		.end = probe_end,
	};
	const struct server_setup setup = {
		.app = &app,
		.threads = 1,
		.connections_max = CONNECTIONS_MAX,
		.idle_ms = CLIENT_MS,
		.header_ms = CLIENT_MS,
		.body_ms = CLIENT_MS,
		.send_ms = CLIENT_MS,
	};
	int64_t lease_ms = config_int(config, "lease");
	sigset_t all, before;
	int rc;

	if (!config_text(config, "health.listen"))
		return 0;
	probes.pulse = pulse;
	probes.started_ns = clock_ns();
	probes.lease_ns = (uint64_t)lease_ms * NS_PER_MS;
	probes.answer_ns = (uint64_t)(lease_ms / 4 < ANSWER_MAX_MS ? lease_ms / 4 : ANSWER_MAX_MS) * NS_PER_MS;
	rc = open_addresses(config, err);
	arena_reserve();
	/* Signals are for the thread of the worker. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (int i = 0; rc == 0 && i < probes.sockets.len; i++) {
		rc = server_listen(&probes.server, &setup, &probes.sockets.list[i], err);
		if (rc == 0)
			log_line(LOG_L_INFO, "answers probes at %s", probes.sockets.list[i].name);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	sockets_close(&probes.sockets);
	return rc;
}

void probes_tick(void)
{
	if (probes.server.len == 0)
		return;
	server_tick(&probes.server);
	budget_trim();
	arena_reserve();
}

void probes_stop(void)
{
	server_stop(&probes.server);
}
