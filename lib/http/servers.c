/* SPDX-License-Identifier: MIT */
#include "http/servers.h"

int servers_add(struct servers *servers, const struct server_setup *setup, struct listen_socket *socket,
		struct deferred_error *err)
{
	struct server *server = server_start(setup, socket->fd, socket->tls, err);

	socket->fd = -1;
	if (!server)
		return DEFERRED_ESYSTEM;
	servers->list[servers->len++] = server;
	return 0;
}

void servers_tick(struct servers *servers)
{
	for (int i = 0; i < servers->len; i++)
		server_tick(servers->list[i]);
}

void servers_quiesce(struct servers *servers)
{
	for (int i = 0; i < servers->len; i++)
		server_quiesce(servers->list[i]);
}

int servers_busy(struct servers *servers)
{
	int n = 0;

	for (int i = 0; i < servers->len; i++)
		n += server_busy(servers->list[i]);
	return n;
}

void servers_stop(struct servers *servers)
{
	for (int i = 0; i < servers->len; i++)
		server_stop(servers->list[i]);
	servers->len = 0;
}
