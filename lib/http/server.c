/* SPDX-License-Identifier: MIT */
#include "http/server.h"

#include "http/http_connection.h"
#include "http/loop.h"

#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 64

/* A listening socket with its connections and threads. */
struct server_port {
	struct server_setup setup;
	struct http_connection_server shared;
	int listening;
	struct loop *loops[THREADS_MAX];
	int len;
};

static void port_stop(struct server_port *p)
{
	for (int i = 0; i < p->len; i++)
		loop_stop(p->loops[i]);
	http_connection_free_all(&p->shared);
	limits_free(&p->shared.limits);
	close(p->listening);
	free(p);
}

int server_listen(struct server *s, const struct server_setup *setup, struct listen_socket *socket,
		  struct deferred_error *err)
{
	struct server_port *p = calloc(1, sizeof(*p));

	if (!p)
		return error_set(err, DEFERRED_ENOMEM, "server", "out of memory");
	p->setup = *setup;
	p->shared.setup = &p->setup;
	p->shared.tls = socket->tls;
	limits_init(&p->shared.limits, setup->connections_max, setup->connections_per_address);
	p->listening = socket->fd;
	socket->fd = -1;
	while (p->len < setup->threads && p->len < THREADS_MAX &&
	       (p->loops[p->len] = loop_start(&p->shared, p->listening)))
		p->len++;
	if (p->len < setup->threads) {
		error_errno(err, DEFERRED_ESYSTEM, "server",
			    "cannot start the server\nraise the limits of open files and processes");
		port_stop(p);
		return DEFERRED_ESYSTEM;
	}
	s->ports[s->len++] = p;
	return 0;
}

void server_tick(struct server *s)
{
	for (int i = 0; i < s->len; i++)
		limits_tick(&s->ports[i]->shared.limits);
}

void server_quiesce(struct server *s)
{
	for (int i = 0; i < s->len; i++) {
		atomic_store(&s->ports[i]->shared.closing, true);
		for (int j = 0; j < s->ports[i]->len; j++)
			loop_quiesce(s->ports[i]->loops[j]);
	}
}

int server_busy(struct server *s)
{
	int n = 0;

	for (int i = 0; i < s->len; i++)
		n += atomic_load(&s->ports[i]->shared.busy);
	return n;
}

void server_stop(struct server *s)
{
	for (int i = 0; i < s->len; i++)
		port_stop(s->ports[i]);
	s->len = 0;
}
