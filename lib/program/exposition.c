/* SPDX-License-Identifier: MIT */
#include "program/exposition.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool exposition_wants_open(const char *accept)
{
	return accept && strstr(accept, "application/openmetrics-text");
}

bool exposition_begin(struct exposition *e, bool open)
{
	*e = (struct exposition){ .open = open };
	e->fp = open_memstream(&e->text, &e->len);
	return e->fp;
}

char *exposition_end(struct exposition *e)
{
	if (e->open)
		fputs("# EOF\n", e->fp);
	if (fclose(e->fp) == 0)
		return e->text;
	free(e->text);
	return NULL;
}

void exposition_metric(struct exposition *e, const char *name, const char *type, const char *help)
{
	bool counter = strcmp(type, "counter") == 0;
	/* OpenMetrics names the family of a counter without what each sample ends in. */
	int len = (int)(strlen(name) - (counter && e->open ? strlen("_total") : 0));

	e->name = name;
	fprintf(e->fp, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, name, help, len, name, type);
}

static void print_label(struct exposition *e, char separator, const struct exposition_label *l)
{
	fprintf(e->fp, "%c%s=\"", separator, l->name);
	for (const char *value = l->value; *value; value++)
		fprintf(e->fp, *value == '\n' ? "\\n" : *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	fputc('"', e->fp);
}

void exposition_sample(struct exposition *e, const char *after, const struct exposition_label *labels, size_t n)
{
	char separator = '{';

	fprintf(e->fp, "%s%s", e->name, after);
	for (size_t i = 0; i < n; i++) {
		if (!labels[i].value)
			continue;
		print_label(e, separator, &labels[i]);
		separator = ',';
	}
	fputs(separator == ',' ? "} " : " ", e->fp);
}

void exposition_whole(struct exposition *e, int64_t n)
{
	fprintf(e->fp, "%" PRId64 "\n", n);
}

void exposition_seconds(struct exposition *e, int64_t us)
{
	fprintf(e->fp, "%" PRId64 ".%06" PRId64 "\n", us / 1000000, us % 1000000);
}

void exposition_histogram(struct exposition *e, const struct exposition_label *labels, size_t n,
			  const struct histogram *h, int64_t sum_us, const int64_t *bounds_us, size_t bounds)
{
	struct exposition_label all[EXPOSITION_LABELS + 1] = { { 0 } };
	char le[32];

	memcpy(all, labels, n * sizeof(*labels));
	all[n] = (struct exposition_label){ "le", le };
	for (size_t i = 0; i <= bounds; i++) {
		if (i == bounds)
			strcpy(le, "+Inf");
		else
			snprintf(le, sizeof(le), "%g%s", (double)bounds_us[i] / 1e6,
				 e->open && bounds_us[i] % 1000000 == 0 ? ".0" : "");
		exposition_sample(e, "_bucket", all, n + 1);
		exposition_whole(e, i == bounds ? histogram_count(h) : histogram_up_to(h, bounds_us[i]));
	}
	exposition_sample(e, "_sum", labels, n);
	exposition_seconds(e, sum_us);
	exposition_sample(e, "_count", labels, n);
	exposition_whole(e, histogram_count(h));
}
