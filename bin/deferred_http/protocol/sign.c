/* SPDX-License-Identifier: MIT */
#include "protocol/sign.h"

#include "http/crypto.h"

#include <stdlib.h>
#include <string.h>

static const char *next_letter(const char *p)
{
	while (*p == '-')
		p++;
	return p;
}

static int weight_of(char c)
{
	if (c == '_')
		return 1;
	if (c >= '0' && c <= '9')
		return 512 + c;
	if (c >= 'a' && c <= 'z')
		return 1024 + c;
	return 2 + (unsigned char)c;
}

int sign_compare_names(const char *a, const char *b)
{
	const char *p = next_letter(a), *q = next_letter(b);

	for (; *p && *q; p = next_letter(p + 1), q = next_letter(q + 1))
		if (*p != *q)
			return weight_of(*p) - weight_of(*q);
	if (*p || *q)
		return *p ? 1 : -1;
	return strcmp(a, b);
}

static int by_their_order(const void *a, const void *b)
{
	return sign_compare_names((*(const struct request_header *const *)a)->name,
				  (*(const struct request_header *const *)b)->name);
}

static void add_headers(const struct request *r, bool byte_order, struct buf *out)
{
	const struct request_header **list = arena_alloc(r->arena, (r->headers_len + 1) * sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < r->headers_len; i++)
		if (strncmp(r->headers[i].name, "x-ms-", 5) == 0)
			list[n++] = &r->headers[i];
	if (!byte_order && n > 0)
		qsort(list, n, sizeof(*list), by_their_order);
	for (size_t i = 0; i < n; i++) {
		buf_text(out, list[i]->name);
		buf_add(out, ":", 1);
		buf_text(out, list[i]->value);
		buf_add(out, "\n", 1);
	}
}

struct lowered {
	const char *name, *value;
};

static int by_name_and_value(const void *a, const void *b)
{
	const struct lowered *x = a, *y = b;
	int d = strcmp(x->name, y->name);

	return d != 0 ? d : strcmp(x->value, y->value);
}

static void add_params(const struct request *r, struct buf *out)
{
	struct lowered *list = arena_alloc(r->arena, (r->params_len + 1) * sizeof(*list));

	for (size_t i = 0; i < r->params_len; i++) {
		char *name = arena_copy(r->arena, r->params[i].name, strlen(r->params[i].name));

		for (char *p = name; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p + 'a' - 'A');
		list[i] = (struct lowered){ name, r->params[i].value };
	}
	if (r->params_len > 0)
		qsort(list, r->params_len, sizeof(*list), by_name_and_value);
	for (size_t i = 0; i < r->params_len; i++) {
		if (i > 0 && strcmp(list[i - 1].name, list[i].name) == 0) {
			buf_add(out, ",", 1);
		} else {
			buf_add(out, "\n", 1);
			buf_text(out, list[i].name);
			buf_add(out, ":", 1);
		}
		buf_text(out, list[i].value);
	}
}

static void add_header_line(const struct request *r, const char *header, struct buf *out)
{
	const char *value = request_value(r, header);

	if (value)
		buf_text(out, value);
	buf_add(out, "\n", 1);
}

/* Empty where x-ms-date tells the time. */
static void add_date(const struct request *r, struct buf *out)
{
	if (request_value(r, "x-ms-date"))
		buf_add(out, "\n", 1);
	else
		add_header_line(r, "date", out);
}

static void add_resource(const struct request *r, bool no_suffix, struct buf *out)
{
	size_t skip = strlen(r->account) + 1;

	buf_add(out, "/", 1);
	buf_text(out, r->account);
	if (no_suffix && r->path_style && r->secondary && strlen(r->raw_path) >= skip + strlen("-secondary")) {
		buf_add(out, r->raw_path, skip);
		buf_text(out, r->raw_path + skip + strlen("-secondary"));
	} else {
		buf_text(out, r->raw_path);
	}
}

void sign_text(const struct request *r, const struct sign_form *form, struct buf *out)
{
	static const char *const rest[] = { "if-modified-since", "if-match", "if-none-match", "if-unmodified-since",
					    "range" };
	const char *length = request_value(r, "content-length"), *comp;

	buf_text(out, r->method);
	buf_add(out, "\n", 1);
	if (!form->lite) {
		add_header_line(r, form->swapped ? "content-language" : "content-encoding", out);
		add_header_line(r, form->swapped ? "content-encoding" : "content-language", out);
		if (length && (strcmp(length, "0") != 0 || form->literal_zero))
			buf_text(out, length);
		buf_add(out, "\n", 1);
	}
	add_header_line(r, "content-md5", out);
	add_header_line(r, "content-type", out);
	add_date(r, out);
	for (size_t i = 0; !form->lite && i < sizeof(rest) / sizeof(rest[0]); i++)
		add_header_line(r, rest[i], out);
	add_headers(r, form->byte_order, out);
	add_resource(r, form->no_suffix, out);
	if (!form->lite) {
		add_params(r, out);
	} else if ((comp = request_param(r, "comp"))) {
		buf_text(out, "?comp=");
		buf_text(out, comp);
	}
}

bool sign_matches(const struct sign_keys *keys, const char *text, size_t len, const char *signature)
{
	unsigned char given[CRYPTO_SHA256_BYTES], mac[CRYPTO_SHA256_BYTES];
	bool matches = false;

	if (!crypto_base64_decode(signature, given, sizeof(given)))
		return false;
	for (size_t i = 0; i < SIGN_KEYS; i++)
		if (keys->len[i] > 0 && crypto_hmac_sha256(keys->key[i], keys->len[i], text, len, mac))
			matches |= crypto_equal(mac, given, sizeof(mac));
	return matches;
}

/* Does byte order differ from theirs for these headers? */
static bool order_matters(const struct request *r)
{
	const char *before = NULL;

	for (size_t i = 0; i < r->headers_len; i++) {
		if (strncmp(r->headers[i].name, "x-ms-", 5) != 0)
			continue;
		if (before && sign_compare_names(before, r->headers[i].name) > 0)
			return true;
		before = r->headers[i].name;
	}
	return false;
}

static bool not_empty(const char *value)
{
	return value && *value;
}

/* Before 2009-09-19 SharedKey signed the short text. */
static bool is_old(const struct request *r)
{
	return r->form_2008 || (r->version && strcmp(r->version, "2009-09-19") < 0);
}

void sign_text_usual(const struct request *r, bool lite, struct buf *out)
{
	struct sign_form form = { .lite = lite || is_old(r) };

	sign_text(r, &form, out);
}

bool sign_verify(const struct request *r, const struct sign_keys *keys, bool lite, const char *signature)
{
	const char *length = request_value(r, "content-length");
	bool old = is_old(r);
	/* Differences between clients. A form that gives the same text is not tried. */
	bool zero = length && strcmp(length, "0") == 0 && (!r->version || strcmp(r->version, "2015-02-21") < 0);
	bool swap = not_empty(request_value(r, "content-language")) || not_empty(request_value(r, "content-encoding"));
	bool order = order_matters(r), suffix = r->path_style && r->secondary;
	struct buf text = { 0 };
	bool matches = false;

	for (unsigned i = 0; i < 32 && !matches; i++) {
		struct sign_form form = { .lite = lite || (old && !(i & 16)),
					  .literal_zero = i & 1,
					  .swapped = i & 2,
					  .byte_order = i & 4,
					  .no_suffix = i & 8 };

		if ((form.literal_zero && (!zero || form.lite)) || (form.swapped && (!swap || form.lite)) ||
		    (form.byte_order && !order) || (form.no_suffix && !suffix) || ((i & 16) && (!old || lite)))
			continue;
		text.len = 0;
		sign_text(r, &form, &text);
		matches = sign_matches(keys, text.p, text.len, signature);
	}
	buf_clear(&text);
	return matches;
}
