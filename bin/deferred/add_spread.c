/* SPDX-License-Identifier: MIT */
#include "add_spread.h"

#include "add_lines.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/route.h"
#include "port/params.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Lines that may go anywhere go there by so many. */
#define BLOCK_LINES 1000

struct shard {
	const struct config_shard *section;
	bool answers;
	FILE *lines;           /* its own, each with as many line ends in front that it has the number it has in the file */
	int64_t written, first, count;
};

struct spread {
	struct cli *cli;
	struct shard *shards;
	size_t len;
	const char **names;    /* of those that accept jobs, */
	struct shard **routed; /* and they, in the same order */
	size_t routed_len;
	struct shard **any;    /* those of them that answer */
	size_t any_len, start;
	struct added added;    /* ADDED_NONE until it is stored */
};

/* Runs f in a child process, since a command is for one database. Returns its exit code; where `to` is not NULL what it wrote to fd is there. */
static int in_child(struct spread *s, struct shard *shard, int (*f)(struct spread *s, struct shard *shard, int fd), FILE *to)
{
	int fds[2], status = 0;
	char buf[65536];
	ssize_t n;
	pid_t pid;

	fflush(NULL);
	if (pipe(fds) < 0 || (pid = fork()) < 0) {
		fprintf(stderr, "deferred: cannot ask shard \"%s\": %s\n", shard->section->name, strerror(errno));
		return EX_OSERR;
	}
	if (pid == 0) {
		close(fds[0]);
		_exit(f(s, shard, fds[1]));
	}
	close(fds[1]);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		if (to && n > 0)
			fwrite(buf, 1, (size_t)n, to);
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EX_OSERR;
}

/* ---- where lines go ----------------------------------------------------------------------------- */

static int look(struct spread *s, struct shard *shard, int fd)
{
	int rc = freopen("/dev/null", "w", stderr) ? cli_use_shard(s->cli, shard->section->name) : EX_OSERR;

	(void)fd;
	return rc != 0 ? rc : cli_connect(s->cli, true);
}

/* Who accepts jobs, and who of them is there. */
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
		if (in_child(s, shard, look, NULL) == EX_OK)
			s->any[s->any_len++] = shard;
	}
	if (s->routed_len == 0)
		return cli_usage(s->cli, "no shard accepts jobs");
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

static int shard_of_line(struct spread *s, const char *line, size_t len, int64_t number, struct shard **shard, struct deferred_error *err)
{
	struct params_object *object = params_read(line, len);
	const char *route;
	int64_t after;

	if (!object)
		return error_set(err, DEFERRED_ENOMEM, "add", "out of memory");
	route = params_text(object, "concurrency_key");
	route = route ? route : params_text(object, "key");
	after = params_job(object, "after");
	*shard = after ? shard_with(s, shard_of(after))
		 : route ? s->routed[shard_for(s->names, s->routed_len, route)]
			 : s->any[((size_t)number / BLOCK_LINES + s->start) % s->any_len];
	params_free(object);
	return *shard ? 0 : error_set(err, DEFERRED_EINVAL, "add", "line %" PRId64 ": job %" PRId64 " is in none of the %zu shards of the config file", number, after, s->len);
}

static int put_line(struct spread *s, const char *line, size_t len, int64_t number, struct deferred_error *err)
{
	struct shard *to;
	int rc = add_lines_check(line, len, number, err);

	if (rc < 0 || strspn(line, " \t\r\n") == len)
		return rc;
	if ((rc = shard_of_line(s, line, len, number, &to, err)) < 0 || (rc = added_append(&s->added, ADDED_NONE, number, err)) < 0)
		return rc;
	if (!to->lines && !(to->lines = tmpfile()))
		return error_errno(err, DEFERRED_ESYSTEM, "add", "cannot make a temporary file");
	for (; to->written < number - 1; to->written++)
		putc('\n', to->lines);
	to->written = number;
	to->first = to->count++ ? to->first : number;
	if (fwrite(line, 1, len, to->lines) != len || (line[len - 1] != '\n' && putc('\n', to->lines) == EOF))
		return error_errno(err, DEFERRED_ESYSTEM, "add", "cannot write to a temporary file");
	return 0;
}

static int put_lines(struct spread *s, FILE *fp, struct deferred_error *err)
{
	char *line = NULL;
	size_t cap = 0;
	int64_t number = 0;
	ssize_t len;
	int rc = 0;

	while (rc == 0 && (len = getline(&line, &cap, fp)) >= 0)
		rc = put_line(s, line, (size_t)len, ++number, err);
	if (rc == 0 && ferror(fp))
		rc = error_errno(err, DEFERRED_ESYSTEM, "add", "cannot read standard input");
	for (size_t i = 0; i < s->len && rc == 0; i++)
		if (s->shards[i].lines && (fflush(s->shards[i].lines) != 0 || ferror(s->shards[i].lines)))
			rc = error_errno(err, DEFERRED_ESYSTEM, "add", "cannot write to a temporary file");
	free(line);
	return rc;
}

/* ---- storing them ------------------------------------------------------------------------------- */

/* Writes the number of each line and the id it got. */
static int store(struct spread *s, struct shard *shard, int fd)
{
	struct added added = { 0 };
	FILE *to = fdopen(fd, "w");
	int exit_code = to ? cli_use_shard(s->cli, shard->section->name) : EX_OSERR;

	rewind(shard->lines);
	if (exit_code == EX_OK)
		exit_code = cli_connect(s->cli, true);
	if (exit_code == EX_OK)
		exit_code = add_lines_store(s->cli, shard->lines, &added);
	for (size_t i = 0; i < added.len && exit_code == EX_OK; i++)
		fprintf(to, "%" PRId64 " %" PRId64 "\n", added.lines[i], added.ids[i]);
	return to && fflush(to) != 0 ? EX_OSERR : exit_code;
}

static int take_ids(struct spread *s, struct shard *shard)
{
	char *text = NULL;
	size_t size = 0, at = 0;
	FILE *to = open_memstream(&text, &size);
	int64_t line, id, got = 0;
	int exit_code = to ? in_child(s, shard, store, to) : EX_OSERR, n;

	if (to && fclose(to) == 0 && exit_code == EX_OK) {
		for (const char *p = text; sscanf(p, "%" SCNd64 " %" SCNd64 "\n%n", &line, &id, &n) == 2; p += n) {
			while (at < s->added.len && s->added.lines[at] < line)
				at++;
			if (at < s->added.len && s->added.lines[at] == line) {
				s->added.ids[at] = id;
				got++;
			}
		}
	}
	free(text);
	if (got < shard->count)
		fprintf(stderr, "deferred: shard \"%s\" gave no ids for %" PRId64 " line%s, the first of them is line %" PRId64 "\n", shard->section->name,
			shard->count - got, cli_s(shard->count - got), shard->first);
	return exit_code == EX_OK && got < shard->count ? EX_OSERR : exit_code;
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
			int rc = s.shards[i].lines ? take_ids(&s, &s.shards[i]) : EX_OK;

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
