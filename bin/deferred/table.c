/* SPDX-License-Identifier: MIT */
#include "table.h"

#include "port/params.h"
#include "port/pg.h"
#include "base/span.h"
#include "base/text/utf8.h"
#include "base/text/visible.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* A program that prints one answer has no better idea when memory is short. */
static void *must(void *p)
{
	if (!p) {
		fputs("deferred: out of memory\nhint: free memory on this host\n", stderr);
		exit(EX_OSERR);
	}
	return p;
}

void table_begin(struct table *t, const char *const *headers, int cols)
{
	memset(t, 0, sizeof(*t));
	t->headers = headers;
	t->cols = cols;
}

char *table_clean(const char *text, size_t max, int indent)
{
	size_t lines = 0, n = 0, len = utf8_count(text);
	char *copy, *q, shown[VISIBLE_MAX];

	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	/* A byte becomes four at most, one of two bytes six. */
	q = copy = must(malloc(4 * strlen(text) + lines * (size_t)(indent > 0 ? indent : 0) + VISIBLE_MAX));
	while (*text) {
		if (max && len > max && n + 3 >= max) {
			strcpy(q, "...");
			return copy;
		}
		if (*text == '\n' && indent >= 0) {
			q += sprintf(q, "\n%*s", indent, "");
			text++;
			continue;
		}
		text += visible_char(text, shown);
		q = stpcpy(q, shown);
		n++;
	}
	*q = '\0';
	return copy;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	must(text);
	if (t->len == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->cells = must(realloc(t->cells, t->cap * sizeof(*t->cells)));
	}
	t->cells[t->len++] = table_clean(text, 48, TABLE_ONE_LINE);
	free(text);
}

void table_number(struct table *t, bool known, int64_t n)
{
	if (known)
		table_cell(t, "%" PRId64, n);
	else
		table_cell(t, "%s", "");
}

/* Blanks are owed until something follows them, so that no line ends in blanks. */
static void print_cell(const char *text, size_t width, int right, size_t *owed)
{
	size_t pad = width - utf8_count(text);

	if (text[0]) {
		printf("%*s%s", (int)(*owed + (right ? pad : 0)), "", text);
		*owed = right ? 0 : pad;
	} else {
		*owed += width;
	}
	*owed += 2;
}

void table_end_list(struct table *t, const char *things)
{
	if (t->len > 0)
		table_end(t);
	else if (isatty(STDOUT_FILENO))
		printf("no %s\n", things);
}

void table_end(struct table *t)
{
	size_t *widths = must(calloc((size_t)t->cols, sizeof(*widths))), owed = 0;

	for (int c = 0; c < t->cols; c++)
		widths[c] = utf8_count(t->headers[c]) - (t->headers[c][0] == '>');
	for (size_t i = 0; i < t->len; i++) {
		size_t w = utf8_count(t->cells[i]);

		if (w > widths[i % (size_t)t->cols])
			widths[i % (size_t)t->cols] = w;
	}
	for (int c = 0; c < t->cols; c++) {
		int right = t->headers[c][0] == '>';

		print_cell(t->headers[c] + right, widths[c], right, &owed);
	}
	for (size_t i = 0; i < t->len; i++) {
		size_t c = i % (size_t)t->cols;

		if (c == 0) {
			putchar('\n');
			owed = 0;
		}
		print_cell(t->cells[i], widths[c], t->headers[c][0] == '>', &owed);
		free(t->cells[i]);
	}
	putchar('\n');
	free(widths);
	free(t->cells);
	memset(t, 0, sizeof(*t));
}

const char *table_age(char buf[TABLE_AGE_SIZE], int64_t seconds)
{
	return span_age(buf, seconds);
}

const char *table_us(char buf[TABLE_AGE_SIZE], int64_t us)
{
	if (us < 1000)
		snprintf(buf, TABLE_AGE_SIZE, "%lldus", (long long)us);
	else if (us < 1000000)
		snprintf(buf, TABLE_AGE_SIZE, "%.1fms", (double)us / 1e3);
	else if (us < 120000000)
		snprintf(buf, TABLE_AGE_SIZE, "%.1fs", (double)us / 1e6);
	else
		table_age(buf, us / 1000000);
	return buf;
}

const char *table_progress(char buf[TABLE_PROGRESS_SIZE], const int64_t *done, const int64_t *total, const char *text,
			   const int64_t *reported_s)
{
	char age[TABLE_AGE_SIZE];
	int n = 0;

	buf[0] = '\0';
	if (!reported_s)
		return buf;
	if (done)
		n = snprintf(buf, TABLE_PROGRESS_SIZE, "%" PRId64, *done);
	if (n > 0 && total && *total > 0)
		n += snprintf(buf + n, TABLE_PROGRESS_SIZE - (size_t)n, " of %" PRId64 " (%.0f %%)", *total,
			      100.0 * (double)*done / (double)*total);
	snprintf(buf + n, TABLE_PROGRESS_SIZE - (size_t)n, "%s%s%s%s ago", n > 0 && text[0] ? ", " : "", text,
		 n > 0 || text[0] ? ", " : "", table_age(age, *reported_s));
	return buf;
}

void table_string(struct params_text *t, const char *key, const char *value)
{
	char *clean = table_clean(value, 0, TABLE_ONE_LINE);

	params_string(t, key, clean);
	free(clean);
}
