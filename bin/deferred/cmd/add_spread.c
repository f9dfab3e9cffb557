/* SPDX-License-Identifier: MIT */
#include "add_spread.h"

#include "add_lines.h"

#include "base/clock.h"
#include "base/text/plural.h"
#include "base/random.h"
#include "base/shard_route.h"
#include "port/params.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The size of a group of lines that may go to any shard. */
#define BLOCK_LINES 1000

struct shard {
	const struct config_shard *section;
	FILE *lines; /* its own, each with as many line ends in front that it has the number it has in the file */
	int64_t written, first, count;
};

struct spread {
	struct cli *cli;
	struct shard *shards;
	size_t len;
	const char **names;    /* of those that accept jobs, */
	struct shard **routed; /* and they, in the same order */
	size_t routed_len;
	struct shard **any; /* those of them that answer */
	size_t any_len, start;
	struct added added; /* ADDED_NONE until it is stored */
};

/* ---- where lines go ----------------------------------------------------------------------------- */

/* In a child, since a command is for one database. */
static bool answers(struct cli *cli, const char *name)
{
	int fd, exit_code;
	pid_t pid = cli_start_child(name, &fd);
	char *text;
	size_t len;

	if (pid == 0) { /* the reason is reported where the shard is needed */
		exit_code = freopen("/dev/null", "w", stderr) ? cli_use_shard(cli, name) : EX_OSERR;
		_exit(exit_code == EX_OK ? cli_connect(cli, true) : exit_code);
	}
	if (pid < 0)
		return false;
	exit_code = cli_end_child(pid, fd, &text, &len);
	free(text);
	return exit_code == EX_OK;
}

/* The shards that accept jobs, and those of them that answer. */
static int find_shards(struct spread *s)
{
	const struct config_shard *sections = config_shards(s->cli->config, &s->len);

	s->shards = calloc(s->len, sizeof(*s->shards));
	s->names = calloc(s->len, sizeof(*s->names));
	s->routed = calloc(s->len, sizeof(*s->routed));
	s->any = calloc(s->len, sizeof(*s->any));
	if (!s->shards || !s->names || !s->routed || !s->any)
		return EX_OSERR;
	for (size_t i = 0; i < s->len; i++) {
		struct shard *shard = &s->shards[i];

		shard->section = &sections[i];
		if (!shard->section->accepting)
			continue;
		s->names[s->routed_len] = shard->section->name;
		s->routed[s->routed_len++] = shard;
		if (answers(s->cli, shard->section->name))
			s->any[s->any_len++] = shard;
	}
	if (s->routed_len == 0)
		return cli_misuse(s->cli, "set accepting = 1 in a shard section of the config file",
				  "no shard accepts jobs");
	if (s->any_len == 0) /* they will say why */
		s->any[s->any_len++] = s->routed[0];
	s->start = (size_t)(random_mix(clock_ns()) % s->any_len);
	return EX_OK;
}

static struct shard *shard_with(struct spread *s, int number)
{
	for (size_t i = 0; i < s->len; i++)
		if (s->shards[i].section->number == number)
			return &s->shards[i];
	return NULL;
}

static int shard_of_line(struct spread *s, const char *line, size_t len, int64_t number, struct shard **shard,
			 struct deferred_error *err)
{
	struct params_object *object = params_read(line, len);
	const char *route;
	int64_t after;

	if (!object)
		return error_set(err, DEFERRED_ENOMEM, "add", "out of memory");
	route = params_text(object, "concurrency_key");
	route = route ? route : params_text(object, "key");
	after = params_job(object, "after");
	after = after ? after : params_job(object, "flow");
	*shard = after   ? shard_with(s, shard_route_of(after))
		 : route ? s->routed[shard_route_for(s->names, s->routed_len, route)]
			 : s->any[((size_t)number / BLOCK_LINES + s->start) % s->any_len];
	params_free(object);
	return *shard ? 0
		      : error_set(err, DEFERRED_EINVAL, "add",
				  "line %" PRId64 ": job %" PRId64 " is in none of the %zu shards of the config file"
				  "\nadd its shard to the file",
				  number, after, s->len);
}

static int put_line(void *data, const char *line, size_t len, int64_t number, struct deferred_error *err)
{
	struct spread *s = data;
	struct shard *to;
	int rc = shard_of_line(s, line, len, number, &to, err);

	if (rc < 0 || (rc = added_append(&s->added, ADDED_NONE, number, err)) < 0)
		return rc;
	if (!to->lines && !(to->lines = tmpfile()))
		return error_errno(err, DEFERRED_ESYSTEM, "add",
				   "cannot make a temporary file\nset TMPDIR to a folder with space");
	for (; to->written < number - 1; to->written++)
		putc('\n', to->lines);
	to->written = number;
	to->first = to->count++ ? to->first : number;
	if (fwrite(line, 1, len, to->lines) != len || (line[len - 1] != '\n' && putc('\n', to->lines) == EOF))
		return error_errno(err, DEFERRED_ESYSTEM, "add",
				   "cannot write to a temporary file\nset TMPDIR to a folder with space");
	return 0;
}

static int put_lines(struct spread *s, FILE *fp, struct deferred_error *err)
{
	int rc = add_lines_read(fp, put_line, s, err);

	for (size_t i = 0; i < s->len && rc == 0; i++)
		if (s->shards[i].lines && (fflush(s->shards[i].lines) != 0 || ferror(s->shards[i].lines)))
			rc = error_errno(err, DEFERRED_ESYSTEM, "add",
					 "cannot write to a temporary file\nset TMPDIR to a folder with space");
	return rc;
}

/* ---- storing them ------------------------------------------------------------------------------- */

/* Writes the number of each line and the id it got. */
static int add_spread_store(struct cli *cli, struct shard *shard, int fd)
{
	struct added added = { 0 };
	FILE *to = fdopen(fd, "w");
	int exit_code = to ? cli_use_shard(cli, shard->section->name) : EX_OSERR;

	rewind(shard->lines);
	if (exit_code == EX_OK)
		exit_code = cli_connect(cli, true);
	if (exit_code == EX_OK)
		exit_code = add_lines_store(cli, shard->lines, &added);
	for (size_t i = 0; i < added.len && exit_code == EX_OK; i++)
		fprintf(to, "%" PRId64 " %" PRId64 "\n", added.lines[i], added.ids[i]);
	return to && fflush(to) != 0 ? EX_OSERR : exit_code;
}

/* Both in the order of lines. Returns how many ids came. */
static int64_t add_spread_take_ids(struct added *added, char *text)
{
	int64_t got = 0;
	size_t at = 0;

	while (*text) {
		int64_t line = strtoll(text, &text, 10), id = strtoll(text, &text, 10);

		text += strspn(text, "\n");
		while (at < added->len && added->lines[at] < line)
			at++;
		if (at < added->len && added->lines[at] == line) {
			added->ids[at] = id;
			got++;
		}
	}
	return got;
}

static int store_in(struct spread *s, struct shard *shard)
{
	int fd, exit_code;
	pid_t pid = cli_start_child(shard->section->name, &fd);
	int64_t missing = shard->count;
	char *text = NULL;
	size_t len;

	if (pid == 0)
		_exit(add_spread_store(s->cli, shard, fd));
	exit_code = pid < 0 ? EX_OSERR : cli_end_child(pid, fd, &text, &len);
	if (exit_code == EX_OK && text)
		missing -= add_spread_take_ids(&s->added, text);
	free(text);
	if (missing > 0)
		cli_say("look for the jobs with deferred ls --shard NAME before you add the lines again",
			"shard '%s' returned no ids for %" PRId64 " line%s, the first is line %" PRId64,
			shard->section->name, missing, plural(missing), shard->first);
	return exit_code == EX_OK && missing > 0 ? EX_OSERR : exit_code;
}

int add_spread(struct cli *cli, FILE *fp)
{
	struct spread s = { .cli = cli };
	struct deferred_error err = { 0 };
	int exit_code = find_shards(&s);

	if (exit_code == EX_OK && put_lines(&s, fp, &err) < 0)
		exit_code = cli_fail(cli, &err);
	else if (exit_code == EX_OK) {
		for (size_t i = 0; i < s.len; i++) {
			int rc = s.shards[i].lines ? store_in(&s, &s.shards[i]) : EX_OK;

			exit_code = exit_code == EX_OK ? rc : exit_code;
		}
		added_print(cli, &s.added);
	}
	for (size_t i = 0; i < s.len && s.shards; i++)
		if (s.shards[i].lines)
			fclose(s.shards[i].lines);
	free(s.shards);
	free(s.names);
	free(s.routed);
	free(s.any);
	added_free(&s.added);
	return exit_code;
}
