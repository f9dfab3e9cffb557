/* SPDX-License-Identifier: MIT */
#include "http/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DIGITS_MAX 18 /* of a Content-Length */
#define CHUNK_DIGITS_MAX 15
#define METHOD_MAX 32
/* What is dropped has an end too: a client that sends nothing else would keep the thread from all others. */
#define EMPTY_LINES_MAX 16   /* before a request */
#define CHUNK_LINES_MAX 4096 /* bytes of all extensions and trailers of a request */

enum state {
	LINE_START,
	LINE_START_LF,
	METHOD,
	TARGET_START,
	TARGET,
	VERSION,
	VERSION_CR,
	VERSION_LF,
	HEADER_START,
	HEADERS_LF,
	NAME,
	VALUE,
	VALUE_LF,
	LENGTH_START,
	LENGTH,
	LENGTH_LF,
	CODING,
	CODING_LF,
	BODY,
	SIZE,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER_START,
	TRAILER,
	TRAILER_LF,
	TRAILERS_LF,
	BROKEN
};

/* What ends the line, or the chunk, of which some was passed on. A line that is held back is not part of that. */
static const char *const endings[] = {
	[LINE_START] = "GET / HTTP/1.1\r\n",
	[LINE_START_LF] = "GET / HTTP/1.1\r\n",
	[METHOD] = " / HTTP/1.1\r\n",
	[TARGET_START] = "/ HTTP/1.1\r\n",
	[TARGET] = " HTTP/1.1\r\n",
	[VERSION] = "HTTP/1.1\r\n",
	[VERSION_CR] = "HTTP/1.1\r\n",
	[VERSION_LF] = "HTTP/1.1\r\n",
	[HEADER_START] = "",
	[HEADERS_LF] = "",
	[NAME] = "-:\r\n",
	[VALUE] = "\r\n",
	[VALUE_LF] = "\r\n",
	[LENGTH_START] = "0\r\n",
	[LENGTH] = "\r\n",
	[LENGTH_LF] = "\r\n",
	[CODING] = "chunked\r\n",
	[CODING_LF] = "chunked\r\n",
	[BODY] = "",
	[SIZE] = "0\r\n\r\n",
	[EXTENSION] = "0\r\n\r\n",
	[SIZE_LF] = "0\r\n\r\n",
	[DATA] = "",
	[DATA_CR] = "\r\n0\r\n\r\n",
	[DATA_LF] = "\r\n0\r\n\r\n",
	[TRAILER_START] = "0\r\n\r\n",
	[TRAILER] = "0\r\n\r\n",
	[TRAILER_LF] = "0\r\n\r\n",
	[TRAILERS_LF] = "0\r\n\r\n",
	[BROKEN] = "",
};

struct out {
	struct wire *wire;
	char *p;
	size_t len, room;
};

static void put(struct out *out, const char *text, size_t len)
{
	size_t now = len < out->room - out->len ? len : out->room - out->len;
	struct wire *w = out->wire;

	memcpy(out->p + out->len, text, now);
	out->len += now;
	/* Never more than a line that was held back, and an ending. */
	memcpy(w->later + w->later_len, text + now, len - now);
	w->later_len += len - now;
}

static void put_text(struct out *out, const char *text)
{
	put(out, text, strlen(text));
}

/* Makes a whole request of what was passed on so far: libmicrohttpd 1.0 answers one without a host by itself. */
static void end_it(struct wire *w, struct out *out, enum fault fault, int status)
{
	put_text(out, endings[w->state]);
	if (w->state <= CODING_LF)
		put_text(out, w->has_host ? "\r\n" : "Host:-\r\n\r\n");
	if (w->state == CODING || w->state == CODING_LF)
		put_text(out, "0\r\n\r\n");
	w->requests += w->state <= LINE_START_LF;
	w->broken = true;
	w->fault = fault;
	w->status = status;
	w->state = BROKEN;
}

static void malformed(struct wire *w, struct out *out)
{
	end_it(w, out,
	       w->state >= HEADER_START && w->state <= CODING_LF ? FAULT_InvalidHeaderValue : FAULT_InvalidInput, 400);
}

/* ---- what bytes are --------------------------------------------------------------------------- */

static bool is_token(unsigned char c)
{
	unsigned char letter = c | 0x20;

	return (letter >= 'a' && letter <= 'z') || c == '-' || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+.^_`|~", c));
}

static bool is_text(unsigned char c)
{
	return (c >= ' ' && c != 0x7f) || c == '\t';
}

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t';
}

static int hex(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ---- the head --------------------------------------------------------------------------------- */

/* False: it has become too large, and was ended. */
static bool afford(struct wire *w, struct out *out, size_t cost)
{
	w->cost += cost;
	if (w->cost <= WIRE_HEAD_MAX)
		return true;
	end_it(w, out, w->state <= TARGET ? FAULT_InvalidUri : FAULT_InvalidHeaderValue,
	       w->state <= TARGET ? 414 : 431);
	return false;
}

static void begin(struct wire *w)
{
	w->requests++;
	w->cost = w->name_len = w->value_len = 0;
	w->has_host = w->has_length = w->chunked = w->old = false;
	w->left = 0;
}

static void in_line(struct wire *w, struct out *out, char c)
{
	static const char version[] = "HTTP/1.";

	switch (w->state) {
	case LINE_START:
		/* An empty line before a request is nothing. */
		if (c == '\r' && w->line < EMPTY_LINES_MAX) {
			w->line++;
			w->state = LINE_START_LF;
			return;
		}
		if (!is_token((unsigned char)c))
			break;
		begin(w);
		w->state = METHOD;
		/* fallthrough */
	case METHOD:
		if (c == ' ')
			w->state = TARGET_START;
		else if (!is_token((unsigned char)c) || w->cost == METHOD_MAX)
			break;
		w->cost++;
		put(out, &c, 1);
		return;
	case LINE_START_LF:
		if (c != '\n')
			break;
		w->state = LINE_START;
		return;
	case TARGET_START:
	case TARGET:
		if (c == ' ' && w->state == TARGET) {
			w->state = VERSION;
			w->value_len = 0;
		} else if ((unsigned char)c <= ' ' || c == 0x7f) {
			break;
		} else {
			w->state = TARGET;
		}
		/* Each parameter is one more of what libmicrohttpd keeps. */
		if (w->state == VERSION || afford(w, out, c == '?' || c == '&' ? 1 + WIRE_FIELD_BYTES : 1))
			put(out, &c, 1);
		return;
	case VERSION:
		if (w->value_len < sizeof(version) - 1) {
			if (w->value_len == 5 && c >= '0' && c <= '9' && c != '1') {
				end_it(w, out, FAULT_InvalidInput, 505);
				return;
			}
			if (c != version[w->value_len++])
				break;
			return;
		}
		if (c < '0' || c > '9')
			break;
		w->old = c == '0';
		w->state = VERSION_CR;
		return;
	case VERSION_CR:
		if (c != '\r')
			break;
		w->state = VERSION_LF;
		return;
	case VERSION_LF:
		if (c != '\n')
			break;
		put_text(out, w->old ? "HTTP/1.0\r\n" : "HTTP/1.1\r\n");
		w->state = HEADER_START;
		return;
	}
	malformed(w, out);
}

static bool is_named(const struct wire *w, const char *name)
{
	return w->name_len == strlen(name) && memcmp(w->name, name, w->name_len) == 0;
}

/* At the colon. Two lengths, or a length and chunks, are two ends of one body; two hosts are two places for one
 * request. */
static void name_ends(struct wire *w, struct out *out)
{
	bool host = is_named(w, "host"), length = is_named(w, "content-length"),
	     coding = is_named(w, "transfer-encoding");

	if ((host && w->has_host) || ((length || coding) && (w->has_length || w->chunked)) || (coding && w->old)) {
		malformed(w, out);
		return;
	}
	put_text(out, ":");
	w->value_len = 0;
	w->digits = 0;
	w->has_host |= host;
	w->has_length |= length;
	w->chunked |= coding;
	w->state = length ? LENGTH_START : coding ? CODING : VALUE;
}

static void headers_end(struct wire *w, struct out *out)
{
	if (!w->has_host && !w->old) {
		end_it(w, out, FAULT_MissingRequiredHeader, 400);
		return;
	}
	put_text(out, "\r\n");
	w->digits = w->line = 0;
	w->state = w->chunked ? SIZE : w->left > 0 ? BODY : LINE_START;
	if (w->state == SIZE)
		w->left = 0;
}

static void in_length(struct wire *w, struct out *out, char c)
{
	if (w->state == LENGTH_START && is_blank((unsigned char)c)) {
		afford(w, out, 1);
		return;
	}
	if (c == '\r' && w->state == LENGTH) {
		w->state = LENGTH_LF;
	} else if (c < '0' || c > '9') {
		malformed(w, out);
	} else if (w->digits == DIGITS_MAX) {
		end_it(w, out, FAULT_RequestBodyTooLarge, 413);
	} else {
		put(out, &c, 1);
		w->digits++;
		w->left = w->left * 10 + (uint64_t)(c - '0');
		w->state = LENGTH;
	}
}

/* "chunked" is the only one known. It is passed on when it is whole. */
static void in_coding(struct wire *w, struct out *out, char c)
{
	static const char chunked[] = "chunked";

	if (w->value_len == 0 && is_blank((unsigned char)c)) {
		afford(w, out, 1);
		return;
	}
	if (w->value_len < sizeof(chunked) - 1 && (c | 0x20) == chunked[w->value_len])
		w->value_len++;
	else if (c == '\r' && w->value_len == sizeof(chunked) - 1)
		w->state = CODING_LF;
	else
		malformed(w, out);
}

/* What in_run() left. */
static void in_name(struct wire *w, struct out *out, char c)
{
	if (c == ':')
		name_ends(w, out);
	else
		malformed(w, out);
}

/* Cookies are nothing to us, but libmicrohttpd takes them apart, and of some (a=") it reckons a length below 0: they
 * are dropped. */
static bool is_dropped(const struct wire *w)
{
	return w->state == VALUE && is_named(w, "cookie");
}

static void in_value(struct wire *w, struct out *out, char c)
{
	if (c == '\r')
		w->state = VALUE_LF;
	else if (!is_text((unsigned char)c))
		malformed(w, out);
	else if (afford(w, out, 1) && !is_dropped(w))
		put(out, &c, 1);
}

/* What is most of a head goes by more than a byte at a time, and means the same. Returns how many that were. */
static size_t in_run(struct wire *w, struct out *out, const char *in, size_t len)
{
	size_t n = 0;

	if (w->state == VALUE)
		while (n < len && is_text((unsigned char)in[n]))
			n++;
	else if (w->state == TARGET)
		while (n < len && (unsigned char)in[n] > ' ' && in[n] != 0x7f && in[n] != '?' && in[n] != '&')
			n++;
	else if (w->state == NAME)
		while (n < len && is_token((unsigned char)in[n]))
			n++;
	if (n == 0 || !afford(w, out, n))
		return n;
	for (size_t i = 0; w->state == NAME && i < n; i++, w->name_len++)
		if (w->name_len < sizeof(w->name))
			w->name[w->name_len] = (char)(in[i] >= 'A' && in[i] <= 'Z' ? in[i] | 0x20 : in[i]);
	if (!is_dropped(w))
		put(out, in, n);
	return n;
}

static void in_headers(struct wire *w, struct out *out, char c)
{
	switch (w->state) {
	case HEADER_START:
		if (c == '\r') {
			w->state = HEADERS_LF;
		} else if (!is_token((unsigned char)c)) {
			malformed(w, out); /* folded, or without a name, or a bare LF */
		} else if (afford(w, out, 4 + WIRE_FIELD_BYTES)) {
			w->name_len = 0;
			w->state = NAME;
			in_run(w, out, &c, 1);
		}
		return;
	case NAME:
		in_name(w, out, c);
		return;
	case VALUE:
		in_value(w, out, c);
		return;
	case LENGTH_START:
	case LENGTH:
		in_length(w, out, c);
		return;
	case CODING:
		in_coding(w, out, c);
		return;
	}
	if (c != '\n') {
		malformed(w, out);
	} else if (w->state == HEADERS_LF) {
		headers_end(w, out);
	} else {
		put_text(out, w->state == CODING_LF ? "chunked\r\n" : "\r\n");
		w->state = HEADER_START;
	}
}

/* ---- chunks ----------------------------------------------------------------------------------- */

static void size_ends(struct wire *w, struct out *out)
{
	char line[24];

	if (w->left == 0) {
		w->state = TRAILER_START;
		return;
	}
	snprintf(line, sizeof(line), "%" PRIx64 "\r\n", w->left);
	put_text(out, line);
	w->state = DATA;
}

static void in_size(struct wire *w, struct out *out, char c)
{
	int digit = hex((unsigned char)c);

	if (digit >= 0 && w->digits < CHUNK_DIGITS_MAX) {
		w->left = w->left * 16 + (unsigned)digit;
		w->digits++;
	} else if (w->digits > 0 && (c == '\r' || c == ';')) {
		w->state = c == '\r' ? SIZE_LF : EXTENSION;
	} else {
		malformed(w, out);
	}
}

/* Text that is dropped, up to the end of its line; in a trailer it has to look like a header. */
static void in_dropped(struct wire *w, struct out *out, char c, unsigned next)
{
	bool in_trailer_name = w->state == TRAILER && w->digits == 0;

	if (c == '\r' && !in_trailer_name)
		w->state = next;
	else if (in_trailer_name && c == ':' && w->name_len > 0)
		w->digits = 1;
	else if ((in_trailer_name ? !is_token((unsigned char)c) : !is_text((unsigned char)c)) ||
		 ++w->line > CHUNK_LINES_MAX)
		malformed(w, out);
	else
		w->name_len++;
}

static void in_chunks(struct wire *w, struct out *out, char c)
{
	switch (w->state) {
	case SIZE:
		in_size(w, out, c);
		return;
	case EXTENSION:
		in_dropped(w, out, c, SIZE_LF);
		return;
	case TRAILER_START:
		w->digits = w->name_len = 0;
		w->state = c == '\r' ? TRAILERS_LF : TRAILER;
		if (c == '\r')
			return;
		/* fallthrough */
	case TRAILER:
		in_dropped(w, out, c, TRAILER_LF);
		return;
	}
	if (c != (w->state == DATA_CR ? '\r' : '\n')) {
		malformed(w, out);
		return;
	}
	switch (w->state) {
	case SIZE_LF:
		size_ends(w, out);
		return;
	case DATA_CR:
		w->state = DATA_LF;
		return;
	case DATA_LF:
		put_text(out, "\r\n");
		w->digits = 0;
		w->state = SIZE;
		return;
	case TRAILER_LF:
		w->state = TRAILER_START;
		return;
	}
	put_text(out, "0\r\n\r\n"); /* TRAILERS_LF */
	w->line = 0;
	w->state = LINE_START;
}

/* ---- public ----------------------------------------------------------------------------------- */

static size_t in_body(struct wire *w, struct out *out, const char *in, size_t len)
{
	size_t n = w->left < len ? (size_t)w->left : len;

	put(out, in, n);
	w->left -= n;
	if (w->left == 0)
		w->state = w->state == BODY ? LINE_START : DATA_CR;
	return n;
}

size_t wire_pass(struct wire *w, const char *in, size_t len, char *out_p, size_t room)
{
	struct out out = { .wire = w, .p = out_p, .room = room };

	for (size_t i = 0; i < len && w->state != BROKEN;) {
		if (w->state == BODY || w->state == DATA) {
			i += in_body(w, &out, in + i, len - i);
			continue;
		}
		i += in_run(w, &out, in + i, len - i);
		if (i == len || w->state == BROKEN)
			break;
		if (w->state < HEADER_START)
			in_line(w, &out, in[i++]);
		else if (w->state < BODY)
			in_headers(w, &out, in[i++]);
		else
			in_chunks(w, &out, in[i++]);
	}
	return out.len;
}

size_t wire_later(struct wire *w, char *out, size_t room)
{
	size_t n = w->later_len < room ? w->later_len : room;

	memcpy(out, w->later, n);
	w->later_len -= n;
	memmove(w->later, w->later + n, w->later_len);
	return n;
}
