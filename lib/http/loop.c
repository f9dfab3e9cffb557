/* SPDX-License-Identifier: MIT */
#include "http/loop.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 64
#define ACCEPTS_MAX 16 /* in a row; then it is the turn of the connections */

struct loop {
	struct http_connection_server *server;
	pthread_t thread;
	int epoll, bell, listening;
	pthread_mutex_t lock;            /* of what follows */
	struct http_connection *resumed; /* the last one first */
	bool stopping;
};

/* May be called from any thread. */
static void loop_ring(struct loop *l)
{
	uint64_t one = 1;

	while (write(l->bell, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void loop_resume(struct http_connection *c, void *data)
{
	struct loop *l = data;
	bool first;

	pthread_mutex_lock(&l->lock);
	first = !l->resumed;
	*http_connection_link(c) = l->resumed;
	l->resumed = c;
	pthread_mutex_unlock(&l->lock);
	if (first)
		loop_ring(l);
}

static void loop_advance(struct loop *l, struct http_connection *c, bool resumed)
{
	switch (http_connection_advance(c, resumed)) {
	case HTTP_CONNECTION_GOES_ON:
		loop_resume(c, l);
		break;
	case HTTP_CONNECTION_OVER:
		http_connection_free(c);
		break;
	case HTTP_CONNECTION_BLOCKED:
	case HTTP_CONNECTION_PARKED:
		break;
	}
}

/* Edge-triggered: an event comes when the socket can do more than before, for reading or for writing. */
static void loop_accept(struct loop *l)
{
	const struct timespec pause = { 0, 10 * 1000000 };
	const int on = 1;

	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
		struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
		socklen_t len = sizeof(peer);
		int fd = accept4(l->listening, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			/* Without descriptors or memory the socket stays ready. Let other threads free some. */
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
				nanosleep(&pause, NULL);
			return;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		event.data.ptr = http_connection_new(l->server, fd, &peer, loop_resume, l);
		if (event.data.ptr && epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
			http_connection_free(event.data.ptr);
	}
}

/* False: the loop ends. */
static bool loop_answer_bell(struct loop *l)
{
	struct http_connection *resumed, *next;
	uint64_t rings;
	bool stopping;

	while (read(l->bell, &rings, sizeof(rings)) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&l->lock);
	resumed = l->resumed;
	l->resumed = NULL;
	stopping = l->stopping;
	pthread_mutex_unlock(&l->lock);
	for (; resumed; resumed = next) {
		next = *http_connection_link(resumed);
		loop_advance(l, resumed, true);
	}
	return !stopping;
}

/* Resumed connections come last, since one that ends then may have an event too. */
static void *loop_run(void *data)
{
	struct epoll_event events[EVENTS_MAX];
	struct loop *l = data;
	bool rang = false, goes_on = true;

	while (goes_on) {
		int n = epoll_wait(l->epoll, events, EVENTS_MAX, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == &l->bell)
				rang = true;
			else if (events[i].data.ptr == &l->listening)
				loop_accept(l);
			else
				loop_advance(l, events[i].data.ptr, false);
		}
		if (rang)
			goes_on = loop_answer_bell(l);
		rang = false;
	}
	return NULL;
}

static void loop_free(struct loop *l)
{
	if (l->epoll >= 0)
		close(l->epoll);
	if (l->bell >= 0)
		close(l->bell);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static bool loop_watch(struct loop *l, int fd, uint32_t events, void *what)
{
	struct epoll_event event = { .events = events, .data.ptr = what };

	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

struct loop *loop_start(struct http_connection_server *server, int listening)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->server = server;
	l->listening = listening;
	pthread_mutex_init(&l->lock, NULL);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->epoll < 0 || l->bell < 0 || !loop_watch(l, l->bell, EPOLLIN, &l->bell) ||
	    !loop_watch(l, listening, EPOLLIN | EPOLLEXCLUSIVE, &l->listening) ||
	    (errno = pthread_create(&l->thread, NULL, loop_run, l)) != 0) {
		loop_free(l);
		return NULL;
	}
	return l;
}

void loop_quiesce(struct loop *l)
{
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->listening, NULL);
}

void loop_stop(struct loop *l)
{
	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	pthread_mutex_unlock(&l->lock);
	loop_ring(l);
	pthread_join(l->thread, NULL);
	loop_free(l);
}
