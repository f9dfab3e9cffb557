/* SPDX-License-Identifier: MIT */
#include "http/chunks.h"

#include "http/head.h"

#include <ctype.h>
#include <string.h>

#define DIGITS_MAX 15

enum state {
	SIZE,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER_START,
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	END_LF
};

static bool is_text(char c)
{
	return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t';
}

static bool drop_byte(struct chunks *k)
{
	return ++k->dropped <= CHUNKS_DROPPED_MAX;
}

static bool read_size(struct chunks *k, char c)
{
	if (isxdigit((unsigned char)c) && k->digits < DIGITS_MAX) {
		k->left = k->left * 16 + (unsigned)(isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10);
		k->digits++;
		return true;
	}
	k->state = c == '\r' ? SIZE_LF : EXTENSION;
	return k->digits > 0 && (c == '\r' || c == ';');
}

static bool read_trailer_name(struct chunks *k, char c)
{
	if (c == ':') {
		k->state = TRAILER_VALUE;
		return k->digits > 0;
	}
	k->digits++;
	return head_is_token(c) && drop_byte(k);
}

/* Text up to CR, behind which the state is `next`. */
static bool read_dropped_text(struct chunks *k, char c, enum state next)
{
	if (c == '\r')
		k->state = next;
	return c == '\r' || (is_text(c) && drop_byte(k));
}

static bool read_end(struct chunks *k, char c, char wanted, enum state next)
{
	k->state = next;
	if (next == SIZE || next == TRAILER_START)
		k->digits = 0;
	return c == wanted;
}

/* False: the byte is wrong. */
static bool read_byte(struct chunks *k, char c)
{
	switch ((enum state)k->state) {
	case SIZE:
		return read_size(k, c);
	case EXTENSION:
		return read_dropped_text(k, c, SIZE_LF);
	case SIZE_LF:
		return read_end(k, c, '\n', k->left > 0 ? DATA : TRAILER_START);
	case DATA: /* not read by the byte */
	case DATA_CR:
		return read_end(k, c, '\r', DATA_LF);
	case DATA_LF:
		return read_end(k, c, '\n', SIZE);
	case TRAILER_START:
		k->state = c == '\r' ? END_LF : TRAILER_NAME;
		return c == '\r' || read_trailer_name(k, c);
	case TRAILER_NAME:
		return read_trailer_name(k, c);
	case TRAILER_VALUE:
		return read_dropped_text(k, c, TRAILER_LF);
	case TRAILER_LF:
		return read_end(k, c, '\n', TRAILER_START);
	case END_LF:
		break;
	}
	k->ended = c == '\n';
	return k->ended;
}

size_t chunks_read(struct chunks *k, char *bytes, size_t len, size_t *data_len)
{
	size_t i = 0;

	*data_len = 0;
	while (i < len && !k->ended && !k->wrong) {
		size_t n = k->left < len - i ? (size_t)k->left : len - i;

		if (k->state != DATA) {
			k->wrong = !read_byte(k, bytes[i++]);
			continue;
		}
		memmove(bytes + *data_len, bytes + i, n);
		*data_len += n;
		i += n;
		k->left -= n;
		if (k->left == 0)
			k->state = DATA_CR;
	}
	return i;
}
