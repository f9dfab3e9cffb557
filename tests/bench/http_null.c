/* SPDX-License-Identifier: MIT */
/*
 * A server that keeps nothing: it answers every put, get and delete of a message as if all had gone well, at once. What
 * a client reaches against it is the client's own limit.
 *
 *     http_null        listens on a port of 127.0.0.1, which it prints
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define COMMON \
	"x-ms-request-id: 3c646cdd-6510-4566-a9c2-66532565a7c3\r\nx-ms-version: 2021-12-02\r\nDate: Fri, 20 Nov 2026 " \
	"18:15:32 GMT\r\n"
#define TIMES \
	"<InsertionTime>Fri, 20 Nov 2026 18:15:32 GMT</InsertionTime><ExpirationTime>Fri, 27 Nov 2026 18:15:32 " \
	"GMT</ExpirationTime>"
#define ID "<MessageId>3c646cdd-6510-4566-a9c2-66532565a7c3</MessageId>"
#define RECEIPT "<PopReceipt>MjBOb3YyMDI2</PopReceipt><TimeNextVisible>Fri, 20 Nov 2026 18:15:32 GMT</TimeNextVisible>"
#define HUNDRED "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define XML(inside) \
	"<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage>" inside \
	"</QueueMessage></QueueMessagesList>"

static const char put_xml[] = XML(ID TIMES RECEIPT);
static const char get_xml[] =
	XML(ID TIMES RECEIPT "<DequeueCount>1</DequeueCount><MessageText>" HUNDRED "</MessageText>");

struct connection {
	int fd;
	size_t len;
	char data[8192];
};

static void answer(int fd, const char *method)
{
	char out[1500];
	int len;

	if (method[0] == 'P' || method[0] == 'G')
		len = snprintf(out, sizeof(out),
			       "HTTP/1.1 %s\r\n" COMMON
			       "Content-Type: application/xml\r\nContent-Length: %zu\r\n\r\n%s",
			       method[0] == 'P' ? "201 Created" : "200 OK",
			       method[0] == 'P' ? sizeof(put_xml) - 1 : sizeof(get_xml) - 1,
			       method[0] == 'P' ? put_xml : get_xml);
	else
		len = snprintf(out, sizeof(out), "HTTP/1.1 204 No Content\r\n" COMMON "\r\n");
	if (send(fd, out, (size_t)len, MSG_NOSIGNAL) != len)
		perror("http_null: send");
}

/* Takes all whole requests there are; -1 when the connection has ended. */
static int serve(struct connection *c)
{
	ssize_t n = recv(c->fd, c->data + c->len, sizeof(c->data) - 1 - c->len, MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : -1;
	c->len += (size_t)n;
	for (;;) {
		const char *end, *length;
		size_t whole;

		c->data[c->len] = 0;
		end = strstr(c->data, "\r\n\r\n");
		if (!end)
			return c->len < sizeof(c->data) - 1 ? 0 : -1;
		length = strcasestr(c->data, "\r\nContent-Length:");
		whole = (size_t)(end + 4 - c->data) +
			(length && length < end ? (size_t)atoi(length + strlen("\r\nContent-Length:")) : 0);
		if (c->len < whole)
			return 0;
		answer(c->fd, c->data);
		memmove(c->data, c->data + whole, c->len - whole);
		c->len -= whole;
	}
}

int main(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(at);
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), epoll = epoll_create1(EPOLL_CLOEXEC), on = 1;
	struct epoll_event events[64], event = { .events = EPOLLIN };

	if (door < 0 || epoll < 0 || bind(door, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(door, 1024) < 0 ||
	    getsockname(door, (struct sockaddr *)&at, &size) < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, door, &event) < 0) {
		perror("http_null");
		return 1;
	}
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (!c) {
				c = calloc(1, sizeof(*c));
				if (!c || (c->fd = accept4(door, NULL, NULL, SOCK_CLOEXEC)) < 0) {
					perror("http_null");
					return 1;
				}
				setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
				event = (struct epoll_event){ .events = EPOLLIN, .data = { .ptr = c } };
				epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
			} else if (serve(c) < 0) {
				close(c->fd);
				free(c);
			}
		}
	}
}
