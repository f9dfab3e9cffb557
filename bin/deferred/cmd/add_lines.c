/* SPDX-License-Identifier: MIT */
#include "add_lines.h"

#include "base/error.h"
#include "base/text/plural.h"
#include "port/params.h"
#include "store/admin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The maximum of lines of a statement, or of bytes; the last line may exceed these. */
#define CHUNK_LINES 1000
#define CHUNK_BYTES (8 * 1024 * 1024)
#define LINE_BYTES_MAX (256 * 1024 * 1024)
#define QUOTE_BYTES 60

struct adding {
	struct pg *pg;
	char *json; /* "[line,line" */
	size_t len, cap;
	size_t start[CHUNK_LINES + 1]; /* of each line in json, behind its comma */
	int64_t number[CHUNK_LINES];   /* of each line in the file, from 1 */
	size_t lines;
	struct added *added;
	FILE *from;
	off_t total; /* size of the file; 0: unknown */
	bool progress;
};

static int add_lines_no_memory(struct deferred_error *err)
{
	return error_set(err, DEFERRED_ENOMEM, "add", "out of memory");
}

static void add_lines_show_progress(const struct adding *a)
{
	static const char bar[] = "########################################";

	if (!a->progress)
		return;
	if (a->total > 0) {
		off_t at = ftello(a->from);
		int percent = (int)(at >= a->total ? 100 : at * 100 / a->total);

		fprintf(stderr, "\r[%-40.*s] %3d%%  %zu job%s", percent * 40 / 100, bar, percent, a->added->len,
			plural((int64_t)a->added->len));
	} else {
		fprintf(stderr, "\r%zu job%s", a->added->len, plural((int64_t)a->added->len));
	}
}

int added_append(struct added *added, int64_t id, int64_t line, struct deferred_error *err)
{
	if (added->len == added->cap) {
		size_t cap = 2 * added->cap + CHUNK_LINES;
		int64_t *ids = realloc(added->ids, cap * sizeof(*ids)), *lines;

		if (!ids)
			return add_lines_no_memory(err);
		added->ids = ids;
		lines = realloc(added->lines, cap * sizeof(*lines));
		if (!lines)
			return add_lines_no_memory(err);
		added->lines = lines;
		added->cap = cap;
	}
	added->ids[added->len] = id;
	added->lines[added->len++] = line;
	return 0;
}

static int keep_ids(struct adding *a, const struct pg_result *res, struct deferred_error *err)
{
	size_t n = pg_rows(res);
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct admin_add_lines_row r = admin_add_lines_row(res, i);

		rc = added_append(a->added, r.job, a->number[i], err);
	}
	return rc;
}

/* The server refused the lines together: send them one by one to learn which. */
static int find_bad_line(struct adding *a, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int rc = pg_command(a->pg, "rollback to savepoint chunk", &why);

	for (size_t i = 0; rc == 0 && i < a->lines; i++) {
		/* The commas around a line are borrowed for its brackets. */
		char *line = a->json + a->start[i] - 1, *end = a->json + a->start[i + 1] - 1;
		struct pg_result *res;

		*line = '[';
		*end = ']';
		rc = store_admin_add_lines(a->pg, line, (size_t)(end + 1 - line), &res, &why);
		pg_result_free(res);
		if (rc < 0) {
			if (strncmp(why.message, "job 1: ", 7) == 0)
				memmove(why.message, why.message + 7, strlen(why.message + 7) + 1);
			error_prefix(&why, "line %" PRId64, a->number[i]);
			*err = why;
		}
	}
	return rc;
}

static int send_chunk(struct adding *a, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc;

	if (a->lines == 0)
		return 0;
	a->json[a->len] = ']'; /* add_lines_add_line() left room */
	a->start[a->lines] = a->len + 1;
	rc = pg_command(a->pg, "savepoint chunk", err);
	if (rc == 0)
		rc = store_admin_add_lines(a->pg, a->json, a->len + 1, &res, err);
	if (rc == 0)
		rc = keep_ids(a, res, err);
	pg_result_free(res);
	if (rc == 0)
		rc = pg_command(a->pg, "release savepoint chunk", err);
	else if (!pg_broken(a->pg))
		find_bad_line(a, err);
	a->lines = a->len = 0;
	add_lines_show_progress(a);
	return rc;
}

/* JSON, but not of an object: a few words of it, cut between characters. */
static int no_object(const char *json, size_t len, struct deferred_error *err)
{
	size_t n = len < QUOTE_BYTES ? len : QUOTE_BYTES;

	while (n < len && n > 0 && ((unsigned char)json[n] & 0xc0) == 0x80)
		n--;
	while (n > 0 && strchr(" \t\r\n", json[n - 1]))
		n--;
	error_set(err, DEFERRED_EINVAL, "add", "no JSON object: %.*s%s", (int)n, json, len > QUOTE_BYTES ? "..." : "");
	error_hint(err, "a line is such as {\"fn\": \"echo\", \"params\": {\"id\": 17}}");
	return DEFERRED_EINVAL;
}

static int add_lines_check(const char *line, size_t len, size_t blank, int64_t number, struct deferred_error *err)
{
	int rc;

	if (memchr(line, '\0', len))
		rc = error_set(err, DEFERRED_EINVAL, "add", "the line has a NUL byte\nwrite text");
	else if (len > LINE_BYTES_MAX)
		rc = error_set(err, DEFERRED_EINVAL, "add",
			       "the line has more than %d bytes\nstore the data elsewhere and pass a reference",
			       LINE_BYTES_MAX);
	else
		rc = params_check(line, len, err);
	if (rc == 0 && line[blank] != '{')
		rc = no_object(line + blank, len - blank, err);
	if (rc < 0)
		error_prefix(err, "line %" PRId64, number);
	return rc;
}

static int add_lines_add_line(void *data, const char *line, size_t len, int64_t number, struct deferred_error *err)
{
	struct adding *a = data;

	if (a->len + len + 2 > a->cap) {
		size_t cap = 2 * (a->len + len) + 2;
		char *json = realloc(a->json, cap);

		if (!json)
			return add_lines_no_memory(err);
		a->json = json;
		a->cap = cap;
	}
	a->json[a->len++] = a->lines ? ',' : '[';
	a->start[a->lines] = a->len;
	a->number[a->lines++] = number;
	memcpy(a->json + a->len, line, len);
	a->len += len;
	return a->lines == CHUNK_LINES || a->len > CHUNK_BYTES ? send_chunk(a, err) : 0;
}

int add_lines_read(FILE *fp, add_lines_fn *f, void *data, struct deferred_error *err)
{
	char *line = NULL;
	size_t cap = 0;
	int64_t number = 0;
	ssize_t len;
	int rc = 0;

	while (rc == 0 && (len = getline(&line, &cap, fp)) >= 0) {
		size_t blank = strspn(line, " \t\r\n");

		number++;
		if (blank == (size_t)len)
			continue;
		rc = add_lines_check(line, (size_t)len, blank, number, err);
		if (rc == 0)
			rc = f(data, line, (size_t)len, number, err);
	}
	if (rc == 0 && ferror(fp))
		rc = error_errno(err, DEFERRED_ESYSTEM, "add", "cannot read standard input\ncheck what is redirected");
	free(line);
	return rc;
}

static void note_stored(struct cli *cli, const struct added *added)
{
	int64_t least = INT64_MAX, largest = 0;

	for (size_t i = 0; i < added->len; i++) {
		if (added->ids[i] == ADDED_NONE)
			return;
		least = added->ids[i] > 0 && added->ids[i] < least ? added->ids[i] : least;
		largest = added->ids[i] > largest ? added->ids[i] : largest;
	}
	if (largest > 0)
		snprintf(cli->stored, sizeof(cli->stored), "all jobs are stored, ids from %" PRId64 " to %" PRId64,
			 least, largest);
}

void added_free(struct added *added)
{
	free(added->ids);
	free(added->lines);
}

int add_lines_store(struct cli *cli, FILE *fp, struct added *added)
{
	struct adding *a = calloc(1, sizeof(*a));
	struct deferred_error err = { 0 };
	struct stat st;
	int rc;

	if (!a) {
		add_lines_no_memory(&err);
		return cli_fail(cli, &err);
	}
	a->pg = cli->pg;
	a->added = added;
	a->from = fp;
	a->progress = isatty(STDERR_FILENO);
	a->total = fstat(fileno(fp), &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
	rc = pg_begin(a->pg, "", &err);
	if (rc == 0)
		rc = add_lines_read(fp, add_lines_add_line, a, &err);
	if (rc == 0)
		rc = send_chunk(a, &err);
	if (rc == 0)
		rc = pg_command(a->pg, "commit", &err);
	if (rc == DEFERRED_ETIMEOUT)
		error_prefix(&err, "not stored");
	if (a->progress)
		fputc('\n', stderr);
	free(a->json);
	free(a);
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

void added_print(struct cli *cli, const struct added *added)
{
	note_stored(cli, added);
	if (cli->json)
		putchar('[');
	for (size_t i = 0; i < added->len; i++) {
		const char *sep = cli->json && i ? ",\n " : "", *end = cli->json ? "" : "\n";

		if (added->ids[i] == ADDED_NONE)
			printf("%s%s%s", sep, cli->json ? "null" : "-", end);
		else
			printf("%s%" PRId64 "%s", sep, added->ids[i], end);
	}
	if (cli->json)
		puts("]");
}

int add_lines(struct cli *cli, FILE *fp)
{
	struct added added = { 0 };
	int exit_code = add_lines_store(cli, fp, &added);

	if (exit_code == EX_OK)
		added_print(cli, &added);
	added_free(&added);
	return exit_code;
}
