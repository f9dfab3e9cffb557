/* SPDX-License-Identifier: MIT */
#include "run/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE 65536

void frame_buf_clear(struct frame_buf *buf)
{
	free(buf->data);
	memset(buf, 0, sizeof(*buf));
}

/* Room for n more bytes and the NUL that frame_take() writes. */
static int reserve(struct frame_buf *buf, size_t n)
{
	if (buf->at > 0 && buf->at == buf->len)
		buf->at = buf->len = 0;
	if (buf->len + n + 1 <= buf->cap)
		return 0;
	if (buf->at > 0) {
		memmove(buf->data, buf->data + buf->at, buf->len - buf->at);
		buf->len -= buf->at;
		buf->at = 0;
	}
	if (buf->len + n + 1 > buf->cap) {
		size_t cap = buf->cap * 2 > buf->len + n + 1 ? buf->cap * 2 : buf->len + n + 1;
		char *data = realloc(buf->data, cap);

		if (!data)
			return -1;
		buf->data = data;
		buf->cap = cap;
	}
	return 0;
}

int frame_put(struct frame_buf *buf, enum frame_type type, unsigned int slot, const struct frame_part *parts, size_t n)
{
	struct frame_head head = { .type = (uint16_t)type, .slot = (uint16_t)slot };
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += parts[i].len;
	if (len > UINT32_MAX || reserve(buf, sizeof(head) + len) < 0)
		return -1;
	head.len = (uint32_t)len;
	memcpy(buf->data + buf->len, &head, sizeof(head));
	buf->len += sizeof(head);
	for (size_t i = 0; i < n; i++) {
		if (parts[i].len > 0)
			memcpy(buf->data + buf->len, parts[i].data, parts[i].len);
		buf->len += parts[i].len;
	}
	return 0;
}

int frame_put_texts(struct frame_buf *buf, enum frame_type type, const char *a, const char *b)
{
	struct frame_part parts[] = { { a, strlen(a) + 1 }, { b ? b : "", b ? strlen(b) + 1 : 0 } };

	return frame_put(buf, type, 0, parts, 2);
}

int frame_take(struct frame_buf *buf, struct frame_head *head, char **payload, size_t max)
{
	size_t have = buf->len - buf->at;
	char *p = buf->data + buf->at;

	if (have < sizeof(*head))
		return 0;
	memcpy(head, p, sizeof(*head));
	if (head->len > max)
		return -1;
	if (have < sizeof(*head) + head->len)
		return 0;
	memmove(p, p + sizeof(*head), head->len);
	p[head->len] = '\0';
	*payload = p;
	buf->at += sizeof(*head) + head->len;
	return 1;
}

int frame_fill(struct frame_buf *buf, int fd, int flags)
{
	ssize_t n;

	if (reserve(buf, READ_SIZE) < 0) {
		errno = ENOMEM;
		return -1;
	}
	do
		n = recv(fd, buf->data + buf->len, READ_SIZE, flags);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -1 : 0;
	buf->len += (size_t)n;
	return 1;
}

int frame_flush(struct frame_buf *buf, int fd, int flags)
{
	while (buf->at < buf->len) {
		ssize_t n = send(fd, buf->data + buf->at, buf->len - buf->at, flags | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		buf->at += (size_t)n;
	}
	buf->at = buf->len = 0;
	return 0;
}

const char *frame_text(const char *payload, size_t len, size_t *at)
{
	const char *text = payload + *at, *end;

	if (*at >= len)
		return NULL;
	end = memchr(text, '\0', len - *at);
	if (!end)
		return NULL;
	*at = (size_t)(end - payload) + 1;
	return text;
}
