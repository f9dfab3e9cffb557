/* SPDX-License-Identifier: MIT */
#include "base/outlet.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { NONE, PLAIN, OWN, SOCKET, ASKED };

void outlet_begin(struct outlet *out, int fd)
{
	char path[32];
	struct stat st;
	int own;

	outlet_end(out);
	out->fd = fd;
	out->kind = ASKED;
	if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode)) {
		out->kind = PLAIN;
	} else if (S_ISSOCK(st.st_mode)) {
		out->kind = SOCKET;
	} else {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
		if (own >= 0) {
			out->fd = own;
			out->kind = OWN;
		}
	}
}

void outlet_end(struct outlet *out)
{
	if (out->kind == OWN)
		close(out->fd);
	out->kind = NONE;
}

bool outlet_begun(const struct outlet *out)
{
	return out->kind != NONE;
}

/* Bytes written, or -1 with errno, EAGAIN: there is no room. */
static ssize_t write_some(const struct outlet *out, const char *text, size_t len)
{
	struct pollfd fd = { out->fd, POLLOUT, 0 };

	if (out->kind == SOCKET)
		return send(out->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (out->kind == ASKED && poll(&fd, 1, 0) <= 0) {
		errno = EAGAIN;
		return -1;
	}
	/* A pipe with room has room for that much at least. */
	return write(out->fd, text, out->kind == ASKED && len > PIPE_BUF ? PIPE_BUF : len);
}

static uint64_t count_lines(const char *text, size_t len)
{
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

/* Returns how much went out; stops where there is no room. On another failure all of it is lost. */
static size_t outlet_write_all(struct outlet *out, const char *text, size_t len)
{
	size_t at = 0;
	ssize_t n;

	while (at < len) {
		n = write_some(out, text + at, len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
			return at;
		if (n < 0) {
			outlet_lost(out, count_lines(text + at, len - at), errno);
			return len;
		}
		at += (size_t)n;
		if (n > 0)
			out->torn = text[at - 1] != '\n';
	}
	return at;
}

static void write_kept(struct outlet *out)
{
	size_t n = outlet_write_all(out, out->kept, out->len);

	if (n == 0)
		return; /* as for each line while nobody reads */
	memmove(out->kept, out->kept + n, out->len - n);
	out->len -= n;
}

void outlet_put(struct outlet *out, const char *line, size_t len)
{
	size_t n = 0;

	if (out->kind == NONE)
		return;
	if (out->len == 0 && out->torn)
		out->torn = outlet_write_all(out, "\n", 1) == 0; /* the rest of the line before is lost */
	if (out->len == 0)
		n = outlet_write_all(out, line, len);
	if (len - n > sizeof(out->kept) - out->len) {
		outlet_lost(out, 1, EAGAIN);
		return;
	}
	memcpy(out->kept + out->len, line + n, len - n);
	out->len += len - n;
}

void outlet_flush(struct outlet *out, int patience_ms)
{
	uint64_t end = clock_ns() + (uint64_t)patience_ms * NS_PER_MS, now;

	if (out->len > 0)
		write_kept(out);
	while (out->len > 0 && (now = clock_ns()) < end) {
		struct pollfd fd = { out->fd, POLLOUT, 0 };

		if (poll(&fd, 1, (int)((end - now) / NS_PER_MS) + 1) > 0)
			write_kept(out);
	}
}

int outlet_fd(const struct outlet *out)
{
	return out->len > 0 ? out->fd : -1;
}

uint64_t outlet_take_lost(struct outlet *out, int *why)
{
	uint64_t lost = out->len == 0 ? out->lost : 0;

	*why = out->why;
	if (lost > 0)
		out->lost = 0;
	return lost;
}

void outlet_lost(struct outlet *out, uint64_t lines, int why)
{
	out->lost += lines;
	out->why = why;
}
