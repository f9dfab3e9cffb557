/* SPDX-License-Identifier: MIT */
#include "port/pg_state.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Types of parameters, from PostgreSQL's catalog. They never change. */
enum {
	OID_BYTEA = 17,
	OID_INT8 = 20,
	OID_INT4 = 23,
	OID_TEXT = 25,
	OID_JSON = 114,
	OID_FLOAT8 = 701,
	OID_JSON_ARRAY = 199,
	OID_INT4_ARRAY = 1007,
	OID_TEXT_ARRAY = 1009,
	OID_INT8_ARRAY = 1016,
	OID_FLOAT8_ARRAY = 1022,
	OID_TIMESTAMPTZ = 1184,
	OID_INTERVAL = 1186,
	OID_INTERVAL_ARRAY = 1187,
	OID_TID = 27,
	OID_TID_ARRAY = 1010,
};

void pg_args_init(struct pg_args *args)
{
	args->n = 0;
	args->failed = false;
	args->buf = NULL;
	args->buf_len = args->buf_cap = 0;
}

void pg_args_clear(struct pg_args *args)
{
	free(args->buf);
	pg_args_init(args);
}

/* Room for len more bytes in buf; NULL when out of memory. Parameters have offsets, because buf moves. */
static char *add_room(struct pg_args *args, size_t len)
{
	if (args->failed)
		return NULL;
	if (args->buf_len + len > args->buf_cap) {
		size_t cap = (args->buf_cap ? args->buf_cap * 2 : 512) + len;
		char *buf = realloc(args->buf, cap);

		if (!buf) {
			args->failed = true;
			return NULL;
		}
		args->buf = buf;
		args->buf_cap = cap;
	}
	args->buf_len += len;
	return args->buf + args->buf_len - len;
}

static struct pg_arg *add_arg(struct pg_args *args, unsigned int type)
{
	struct pg_arg *a;

	if (args->n == (int)(sizeof(args->arg) / sizeof(args->arg[0]))) {
		args->failed = true;
		args->n--;
	}
	a = &args->arg[args->n++];
	memset(a, 0, sizeof(*a));
	a->type = type;
	a->at = args->buf_len;
	return a;
}

static void put16(struct pg_args *args, uint16_t v)
{
	char *p = add_room(args, 2);
	uint16_t be = htobe16(v);

	if (p)
		memcpy(p, &be, 2);
}

static void put32(struct pg_args *args, int32_t v)
{
	char *p = add_room(args, 4);
	uint32_t be = htobe32((uint32_t)v);

	if (p)
		memcpy(p, &be, 4);
}

static void put64(struct pg_args *args, uint64_t v)
{
	char *p = add_room(args, 8);
	uint64_t be = htobe64(v);

	if (p)
		memcpy(p, &be, 8);
}

static uint64_t float_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, 8);
	return bits;
}

void pg_arg_int4(struct pg_args *args, int32_t v)
{
	add_arg(args, OID_INT4)->len = 4;
	put32(args, v);
}

void pg_arg_int8(struct pg_args *args, int64_t v)
{
	add_arg(args, OID_INT8)->len = 8;
	put64(args, (uint64_t)v);
}

void pg_arg_id(struct pg_args *args, int64_t id)
{
	if (id > 0)
		pg_arg_int8(args, id);
	else
		pg_arg_null(args);
}

void pg_arg_timestamptz(struct pg_args *args, int64_t us)
{
	add_arg(args, OID_TIMESTAMPTZ)->len = 8;
	put64(args, (uint64_t)us);
}

void pg_arg_float8(struct pg_args *args, double v)
{
	add_arg(args, OID_FLOAT8)->len = 8;
	put64(args, float_bits(v));
}

static void add_borrowed(struct pg_args *args, unsigned int type, const char *s, size_t len)
{
	struct pg_arg *a = add_arg(args, type);

	a->null = !s;
	a->borrowed = s;
	a->len = (int)len;
}

void pg_arg_text(struct pg_args *args, const char *s)
{
	add_borrowed(args, OID_TEXT, s, s ? strlen(s) : 0);
}

void pg_arg_json(struct pg_args *args, const char *s, size_t len)
{
	add_borrowed(args, OID_JSON, s, len);
}

void pg_arg_bytea(struct pg_args *args, const void *p, size_t len)
{
	add_borrowed(args, OID_BYTEA, p, len);
}

void pg_arg_null(struct pg_args *args)
{
	add_arg(args, 0)->null = true;
}

/* Head of a one-dimensional array in binary form. */
static struct pg_arg *begin_array(struct pg_args *args, unsigned int type, unsigned int element, bool has_null,
				  size_t n)
{
	struct pg_arg *a = add_arg(args, type);

	put32(args, n > 0 ? 1 : 0);
	put32(args, has_null);
	put32(args, (int32_t)element);
	if (n > 0) {
		put32(args, (int32_t)n);
		put32(args, 1);
	}
	return a;
}

static void end_array(struct pg_args *args, struct pg_arg *a)
{
	a->len = (int)(args->buf_len - a->at);
}

static bool any_null(const bool *nulls, size_t n)
{
	return nulls && memchr(nulls, true, n);
}

void pg_arg_int4_array(struct pg_args *args, const int32_t *v, const bool *nulls, size_t n)
{
	struct pg_arg *a;

	if (!v) {
		add_arg(args, OID_INT4_ARRAY)->null = true;
		return;
	}
	a = begin_array(args, OID_INT4_ARRAY, OID_INT4, any_null(nulls, n), n);
	for (size_t i = 0; i < n; i++) {
		put32(args, nulls && nulls[i] ? -1 : 4);
		if (!nulls || !nulls[i])
			put32(args, v[i]);
	}
	end_array(args, a);
}

static void add_array_of_8(struct pg_args *args, unsigned int type, unsigned int element, const void *v,
			   const bool *nulls, size_t n)
{
	const char *p = v;
	struct pg_arg *a;

	if (!v) {
		add_arg(args, type)->null = true;
		return;
	}
	a = begin_array(args, type, element, any_null(nulls, n), n);
	for (size_t i = 0; i < n; i++) {
		uint64_t bits;

		put32(args, nulls && nulls[i] ? -1 : 8);
		memcpy(&bits, p + 8 * i, 8);
		if (!nulls || !nulls[i])
			put64(args, bits);
	}
	end_array(args, a);
}

void pg_arg_int8_array(struct pg_args *args, const int64_t *v, const bool *nulls, size_t n)
{
	add_array_of_8(args, OID_INT8_ARRAY, OID_INT8, v, nulls, n);
}

void pg_arg_tid_array(struct pg_args *args, const int64_t *tids, size_t n)
{
	struct pg_arg *a = begin_array(args, OID_TID_ARRAY, OID_TID, false, n);

	for (size_t i = 0; i < n; i++) {
		put32(args, 6);
		put32(args, (int32_t)(tids[i] >> 16));
		put16(args, (uint16_t)tids[i]);
	}
	end_array(args, a);
}

void pg_arg_interval_array(struct pg_args *args, const int64_t *us, size_t n)
{
	struct pg_arg *a = begin_array(args, OID_INTERVAL_ARRAY, OID_INTERVAL, false, n);

	for (size_t i = 0; i < n; i++) {
		put32(args, 16);
		put64(args, (uint64_t)us[i]);
		put64(args, 0); /* days, months */
	}
	end_array(args, a);
}

void pg_arg_float8_array(struct pg_args *args, const double *v, const bool *nulls, size_t n)
{
	add_array_of_8(args, OID_FLOAT8_ARRAY, OID_FLOAT8, v, nulls, n);
}

static void add_text_array(struct pg_args *args, unsigned int type, unsigned int element, const char *const *v,
			   const size_t *lens, size_t n)
{
	bool has_null = false;
	struct pg_arg *a;

	if (!v) {
		add_arg(args, type)->null = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		has_null |= !v[i];
	a = begin_array(args, type, element, has_null, n);
	for (size_t i = 0; i < n; i++) {
		size_t len = !v[i] ? 0 : lens ? lens[i] : strlen(v[i]);
		char *p;

		put32(args, v[i] ? (int32_t)len : -1);
		p = add_room(args, len);
		if (p && len > 0)
			memcpy(p, v[i], len);
	}
	end_array(args, a);
}

void pg_arg_text_array(struct pg_args *args, const char *const *v, const size_t *lens, size_t n)
{
	add_text_array(args, OID_TEXT_ARRAY, OID_TEXT, v, lens, n);
}

void pg_arg_json_array(struct pg_args *args, const char *const *v, const size_t *lens, size_t n)
{
	add_text_array(args, OID_JSON_ARRAY, OID_JSON, v, lens, n);
}

int pg_to_wire(struct pg_wire *w, const struct pg_args *args, const char *where, struct deferred_error *err)
{
	w->n = args ? args->n : 0;
	if (args && args->failed)
		return error_set(err, DEFERRED_ENOMEM, where, "out of memory");
	for (int i = 0; i < w->n; i++) {
		const struct pg_arg *a = &args->arg[i];

		w->types[i] = a->type;
		w->values[i] = a->null ? NULL : a->borrowed ? a->borrowed : args->buf + a->at;
		w->lengths[i] = a->len;
		w->formats[i] = 1;
	}
	return 0;
}
