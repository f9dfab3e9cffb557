/* SPDX-License-Identifier: MIT */
#include "http/access_log.h"

#include "base/clock.h"
#include "base/outlet.h"
#include "http/buf.h"
#include "http/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 200 /* of what a client chose */

struct access_log {
	char *path;
	pthread_mutex_t lock; /* of what follows */
	int fd;
	struct outlet out;
};

static int open_access_log(const char *path, struct deferred_error *err)
{
	int fd;

	/* Without O_NONBLOCK, open() of a pipe waits for a reader. */
	if (strcmp(path, "-") == 0)
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
	if (fd < 0) {
		bool unread = errno == ENXIO;

		error_errno(err, DEFERRED_ECONFIG, "access log", "cannot open access log '%s'", path);
		error_hint(err, unread ? "nobody reads this pipe: start the program that reads it first"
				       : "name a file in a folder that this user can write to");
	}
	return fd;
}

struct access_log *access_log_open(const char *path, struct deferred_error *err)
{
	struct access_log *log = calloc(1, sizeof(*log));
	int fd;

	if (!log || !(log->path = strdup(path))) {
		free(log);
		error_set(err, DEFERRED_ENOMEM, "access log", "out of memory");
		return NULL;
	}
	fd = open_access_log(path, err);
	if (fd < 0) {
		free(log->path);
		free(log);
		return NULL;
	}
	pthread_mutex_init(&log->lock, NULL);
	log->fd = fd;
	outlet_begin(&log->out, fd);
	return log;
}

int access_log_reopen(struct access_log *log, struct deferred_error *err)
{
	int fd = open_access_log(log->path, err), old;

	if (fd < 0)
		return DEFERRED_ECONFIG;
	pthread_mutex_lock(&log->lock);
	outlet_flush(&log->out, 0);
	old = log->fd;
	log->fd = fd;
	outlet_begin(&log->out, fd);
	pthread_mutex_unlock(&log->lock);
	close(old);
	return 0;
}

static void add_string(struct buf *line, const char *name, const char *value)
{
	size_t len;

	if (!value)
		return;
	len = strlen(value);
	buf_printf(line, ",\"%s\":\"", name);
	for (size_t i = 0; i < len && i < TEXT_MAX; i++) {
		unsigned char c = (unsigned char)value[i];

		if (c == '"' || c == '\\')
			buf_printf(line, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			buf_printf(line, "\\u%04x", c); /* bytes, as Latin 1: the line is ASCII whatever was sent */
		else
			buf_add(line, (const char *)&c, 1);
	}
	buf_text(line, len > TEXT_MAX ? "...\"" : "\"");
}

static void add_peer(struct buf *line, const struct sockaddr_storage *peer)
{
	char text[INET6_ADDRSTRLEN] = "local";

	if (peer->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, text, sizeof(text));
	else if (peer->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)peer)->sin6_addr, text, sizeof(text));
	add_string(line, "peer", text);
}

/* A full disk or a pipe that nobody reads must not stop requests. Lines that cannot be written are counted, and the
 * count stands where they are missing. */
static void flush_log(struct access_log *log, int patience_ms)
{
	char line[80];
	int why, again, n;
	uint64_t lost;

	outlet_flush(&log->out, patience_ms);
	lost = outlet_take_lost(&log->out, &why);
	if (lost == 0)
		return;
	n = snprintf(line, sizeof(line), "{\"lost\":%llu}\n", (unsigned long long)lost);
	outlet_put(&log->out, line, (size_t)n);
	if (outlet_take_lost(&log->out, &again) > 0)
		outlet_lost(&log->out, lost, why); /* not even that */
}

void access_log_flush(struct access_log *log, int patience_ms)
{
	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	flush_log(log, patience_ms);
	pthread_mutex_unlock(&log->lock);
}

void access_log_write(struct access_log *log, const struct access_entry *entry)
{
	const struct request *r = entry->request;
	struct buf line = { 0 };
	char now[TEXT_ISO_SIZE];

	text_iso8601(entry->began_us, now);
	buf_printf(&line, "{\"time\":\"%s\",\"id\":\"%s\"", now, entry->id);
	add_peer(&line, &r->peer);
	add_string(&line, "method", r->method);
	add_string(&line, "path", r->raw_path);
	add_string(&line, "op", entry->op);
	add_string(&line, "account", entry->account);
	add_string(&line, "auth", entry->auth);
	buf_printf(&line, ",\"status\":%d", entry->status);
	add_string(&line, "code", entry->code);
	add_string(&line, "reason", entry->reason);
	buf_printf(&line, ",\"in\":%zu,\"out\":%zu,\"us\":%llu", r->body_len, entry->bytes_out,
		   (unsigned long long)(clock_ns() - entry->began_ns) / 1000);
	if (r->tls)
		buf_text(&line, ",\"tls\":true");
	if (entry->cut)
		buf_text(&line, ",\"cut\":true");
	add_string(&line, "client_id", request_value(r, "x-ms-client-request-id"));
	add_string(&line, "agent", request_value(r, "user-agent"));
	buf_text(&line, "}\n");
	pthread_mutex_lock(&log->lock);
	flush_log(log, 0);
	outlet_put(&log->out, line.p, line.len);
	pthread_mutex_unlock(&log->lock);
	buf_clear(&line);
}

void access_log_close(struct access_log *log)
{
	if (!log)
		return;
	outlet_end(&log->out);
	close(log->fd);
	pthread_mutex_destroy(&log->lock);
	free(log->path);
	free(log);
}
