/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "add_lines.h"
#include "add_spread.h"
#include "deferred.h"
#include "port/params.h"
#include "store/enqueue/job_options.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the order of enum deferred_after_on. */
enum { OPT_AFTER = 1, OPT_AFTER_FAILED, OPT_AFTER_ENDED, OPT_WAIT_FOR, OPT_WITHIN, OPT_ON_TIMEOUT };

/* As deferred.defer() has it. */
#define AFTER_MAX 1000

#define CLI_EVENTS_MAX 32

#define SHARD_NAME_SIZE 64

static const char *const duplicate[] = { "skip", "error", "replace", "update", NULL };

static const char *const on_timeout[] = { "cancel", "fail", "run", NULL };

static const struct program_option options[] = {
	{ "queue", "NAME", "queue of the job", 'q', "default" },
	{ "label", "TEXT", "text for people", 'l', .empty = true },
	{ "priority", "N", "larger ones start first", 'p', "0" },
	{ "delay", "SPAN", "do not start earlier than after this time", 'd' },
	{ "run-at", "TIME", "do not start before this time", 'r' },
	{ "expires", "SPAN", "do not start later than this", 'e' },
	{ "key", "TEXT", "at most one unfinished job per key", 'k' },
	{ "key-until", "WHEN", "until 'end', 'start' or a span after the end", 'u', "end" },
	{ "on-duplicate", "WHAT", "if it is taken", 'o', "skip", duplicate },
	{ "max-attempts", "N", "attempts before the job is dead", 'm' },
	{ "timeout", "SPAN", "limit of one attempt", 't' },
	{ "concurrency-key", "TEXT", "limit running jobs with this text", 'c' },
	{ "concurrency", "N", "most running jobs with that text", 'n', "1" },
	{ "tag", "TEXT", "word to find the job by; may be repeated", 'T' },
	{ "traceparent", "CONTEXT", "W3C trace context", 'P' },
	{ "route", "TEXT", "with several databases: the one of this route", 'R' },
	{ "after", "ID[,ID]...", "start after these jobs have succeeded", OPT_AFTER },
	{ "after-failed", "ID[,ID]...", "start after these jobs have failed", OPT_AFTER_FAILED },
	{ "after-ended", "ID[,ID]...", "start after these jobs have ended", OPT_AFTER_ENDED },
	{ "wait-for", "EVENT", "start after this event was sent; may be repeated", OPT_WAIT_FOR },
	{ "within", "SPAN", "time limit for these events", OPT_WITHIN },
	{ "on-timeout", "WHAT", "if the time is up", OPT_ON_TIMEOUT, "cancel", on_timeout },
	{ "flow", "ID", "add the job to this open flow", 'f' },
	{ "stdin", NULL, "defer one job per line of JSON", 's' },
	{ 0 },
};

static bool read_duplicate(const struct cli *cli, struct deferred_opts *opts)
{
	int n = 0;

	while (duplicate[n] && strcmp(optarg, duplicate[n]) != 0)
		n++;
	opts->on_duplicate = (enum deferred_on_duplicate)n;
	return duplicate[n] ||
	       !cli_bad_value(cli, "use skip, error, replace or update", "--on-duplicate", optarg, "is unknown");
}

static bool read_key_until(const struct cli *cli, int64_t *ms)
{
	if (!isalpha((unsigned char)*optarg))
		return cli_ms(cli, "--key-until", optarg, ms);
	if (strcmp(optarg, "start") == 0)
		*ms = DEFERRED_KEY_UNTIL_START;
	else if (strcmp(optarg, "end") != 0)
		return !cli_bad_value(cli, "use end, start or a span such as 10min", "--key-until", optarg,
				      "is unknown");
	return true;
}

/* One option of a job. False: it was wrong, and reported. */
static bool read_option(const struct cli *cli, int c, struct deferred_opts *opts, struct deferred_more_opts *more)
{
	const struct program_option *p = options;
	const struct job_option *k;
	char flag[24];
	void *member;
	int64_t n;

	if (c == 'q') {
		opts->queue = optarg;
		return true;
	}
	while (p->code != c)
		p++;
	snprintf(flag, sizeof(flag), "--%s", p->name);
	k = job_option_find(p->name);
	member = (k->more ? (char *)more : (char *)opts) + k->at;
	switch (k->kind) {
	case JOB_OPTION_DUPLICATE:
		return read_duplicate(cli, opts);
	case JOB_OPTION_KEY_UNTIL:
		return read_key_until(cli, member);
	case JOB_OPTION_NUMBER:
		if (!cli_int(cli, flag, optarg, (int64_t)k->min, (int64_t)k->max, &n))
			return false;
		*(int *)member = (int)n;
		return true;
	case JOB_OPTION_FLOW:
		return cli_int(cli, flag, optarg, 1, INT64_MAX, &opts->flow);
	case JOB_OPTION_SPAN:
	case JOB_OPTION_FROM_NOW:
		return cli_ms(cli, flag, optarg, member);
	default:
		*(const char **)member = optarg;
		return true;
	}
}

/* "17,18": jobs that are waited for, added to those there are. False: it was wrong, and reported. */
static bool read_after(const struct cli *cli, enum deferred_after_on on, char *list, struct deferred_after *after,
		       size_t *len)
{
	char *rest = list, *id;

	while ((id = strsep(&rest, ","))) {
		if (*len == AFTER_MAX) {
			cli_misuse(cli, "let intermediate jobs wait for some of them",
				   "option '--after' names more than %d jobs", AFTER_MAX);
			return false;
		}
		if (!cli_int(cli, "job id", id, 1, INT64_MAX, &after[*len].job))
			return false;
		after[(*len)++].on = on;
	}
	return true;
}

/* Events that the job waits for. */
struct events {
	const char *names[CLI_EVENTS_MAX];
	char *json[CLI_EVENTS_MAX]; /* freed by the caller of add_events() */
	size_t len;
	const char *within, *on_timeout;
};

/* False: it was wrong, and reported. */
static bool read_event(const struct cli *cli, int c, struct events *e)
{
	int64_t ms;

	switch (c) {
	case OPT_WITHIN:
		e->within = optarg;
		return cli_ms(cli, "--within", optarg, &ms);
	case OPT_ON_TIMEOUT:
		e->on_timeout = optarg;
		if (cli_is_one_of(optarg, on_timeout))
			return true;
		cli_bad_value(cli, "use cancel, fail or run", "--on-timeout", optarg, "is unknown");
		return false;
	default:
		if (e->len == CLI_EVENTS_MAX)
			cli_misuse(cli, "let an intermediate job wait for some of them",
				   "option '--wait-for' names more than %d events", CLI_EVENTS_MAX);
		else
			e->names[e->len++] = optarg;
		return e->len == 0 || e->names[e->len - 1] == optarg;
	}
}

/* Puts the events behind the jobs that are waited for. Returns 0 or an error. */
static int add_events(struct events *e, struct deferred_after *after, size_t *after_len, struct deferred_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < e->len && rc == 0; i++) {
		struct params_text t = { 0 };

		params_open(&t, NULL, '{');
		params_string(&t, "event", e->names[i]);
		if (e->within)
			params_string(&t, "within", e->within);
		if (e->on_timeout)
			params_string(&t, "on_timeout", e->on_timeout);
		params_close(&t, '}');
		rc = params_take(&t, &e->json[i], err);
		after[(*after_len)++] = (struct deferred_after){ .job = DEFERRED_AFTER_EVENT, .as = e->json[i] };
	}
	return rc;
}

/* spool: "" for the setting, or NULL. */
static int open_shard(struct cli *cli, const char *name, const char *spool, struct deferred **d,
		      struct deferred_error *err)
{
	const struct deferred_open_opts opts = {
		.answer_ms = cli->answer_ms, .lock_ms = cli->lock_ms, .shard = name, .spool = spool
	};

	return deferred_open_with(d, cli->conninfo, &opts, err);
}

/* Any shard that accepts jobs will do: the first that answers, beginning with one that was drawn. */
static int open_any(struct cli *cli, struct deferred **d, struct deferred_error *err)
{
	size_t len, first = 0;
	const struct config_shard *shards = config_shards(cli->config, &len);
	char name[SHARD_NAME_SIZE];
	int rc = deferred_shard_for(NULL, name, sizeof(name), err);

	while (rc == 0 && strcmp(shards[first].name, name) != 0)
		first++;
	for (size_t i = 0; i < len && (i == 0 ? rc == 0 : rc == DEFERRED_ECONNECT); i++)
		if (shards[(first + i) % len].accepting)
			rc = open_shard(cli, shards[(first + i) % len].name, NULL, d, err);
	if (rc == DEFERRED_ECONNECT && config_text(cli->config, "spool"))
		rc = open_shard(cli, name, "", d, err);
	return rc;
}

/* A route or key has one shard. If that shard does not answer, no other can take the job. */
static int open_for(struct cli *cli, const char *route, struct deferred **d, struct deferred_error *err)
{
	char name[SHARD_NAME_SIZE];
	struct deferred_error why;
	int rc = deferred_shard_for(route, name, sizeof(name), err);

	if (rc == 0)
		rc = open_shard(cli, name, "", d, err);
	if (rc != DEFERRED_ECONNECT)
		return rc;
	why = *err;
	error_clear(err);
	error_set(err, rc, "shard", "shard '%s', which has '%.64s': %s", name, route, why.message);
	error_hint(err, "%s", why.hint);
	return rc;
}

static int open_context(struct cli *cli, const char *route, struct deferred **d, struct deferred_error *err)
{
	if (cli->conninfo || cli->shard || !config_by_shards(cli->config))
		return open_shard(cli, cli->shard, "", d, err);
	return route ? open_for(cli, route, d, err) : open_any(cli, d, err);
}

static int added_to_spool(const struct cli *cli, const char *id, const struct deferred_error *err)
{
	printf(cli->json ? "{\"spooled\": \"%s\"}\n" : "spooled %s\n", id);
	cli_say(err->hint, "%s", err->message);
	return CLI_SPOOLED;
}

static int add_one(struct cli *cli, const char *fn, const char *params, const struct deferred_opts *opts,
		   const char *route)
{
	struct deferred_error err = { 0 };
	struct deferred *d = NULL;
	int64_t id;
	int rc, code = EX_OK;

	signal(SIGXFSZ, SIG_IGN); /* a spool that cannot grow is an error like others */
	/* The library reads the settings itself. */
	if (cli->config_path && setenv("DEFERRED_CONFIG", cli->config_path, 1) < 0)
		return EX_OSERR;
	if (!cli->conninfo && (rc = cli_config(cli)) != 0)
		return rc;
	for (size_t i = 0; i < opts->after_len && !cli->conninfo; i++)
		if (opts->after[i].job > 0 && (rc = cli_shard_of(cli, opts->after[i].job)) != 0)
			return rc;
	if (opts->flow && !cli->conninfo && (rc = cli_shard_of(cli, opts->flow)) != 0)
		return rc;
	rc = open_context(cli, route ? route : opts->concurrency_key ? opts->concurrency_key : opts->key, &d, &err);
	if (rc == 0)
		rc = deferred_defer(d, fn, params, opts, &id, &err);
	if (rc == 0 && id > 0)
		snprintf(cli->stored, sizeof(cli->stored), "job %" PRId64 " is stored", id);
	if (rc == 0)
		printf(cli->json ? "{\"id\": %" PRId64 "}\n" : "%" PRId64 "\n", id);
	else if (rc == DEFERRED_SPOOLED)
		code = added_to_spool(cli, deferred_spooled_id(d), &err);
	deferred_close(d);
	if (rc < 0 && opts->run_at && strncmp(err.message, "option 'run_at'", 15) == 0)
		return cli_bad_value(cli, "write a time such as '2026-01-31 14:30', or use --delay 5min", "--run-at",
				     opts->run_at, "is not a time");
	if (rc < 0 && strcmp(err.sqlstate, "42501") == 0)
		cli_connect(cli, false); /* to learn what the role lacks */
	/* A script would pay for one more connection for each job. */
	if (rc == 0 && isatty(STDERR_FILENO) && (cli->conninfo || !config_by_shards(cli->config)) &&
	    cli_connect(cli, false) == 0)
		cli_warn_unoffered(cli, fn);
	if (rc == 0)
		cli_spool_drain(cli);
	if (rc < 0)
		code = cli_fail(cli, &err);
	return rc == DEFERRED_ESYSTEM ? EX_CANTCREAT : code;
}

static int cmd_add_run(struct cli *cli, int argc, char **argv)
{
	const char *tags[CLI_TAGS_MAX + 1] = { NULL };
	struct deferred_after after[AFTER_MAX + CLI_EVENTS_MAX] = { 0 };
	struct deferred_more_opts more = { 0 };
	struct deferred_opts opts = { .tags = tags, .after = after, .more = &more };
	struct events events = { 0 };
	struct deferred_error err = { 0 };
	size_t tags_len = 0;
	bool from_stdin = false, any = false;
	const char *params, *route = NULL;
	char *given;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		if (c == 's')
			from_stdin = true;
		else if (c == 'R')
			route = optarg;
		else if (c >= OPT_AFTER && c <= OPT_AFTER_ENDED) {
			if (!read_after(cli, (enum deferred_after_on)(c - OPT_AFTER), optarg, after, &opts.after_len))
				return EX_USAGE;
		} else if (c >= OPT_WAIT_FOR && c <= OPT_ON_TIMEOUT) {
			if (!read_event(cli, c, &events))
				return EX_USAGE;
		} else if (c == 'T' ? !cli_tag(cli, optarg, tags, &tags_len) : !read_option(cli, c, &opts, &more))
			return EX_USAGE;
		any = any || c != 's';
	}
	if (from_stdin) {
		if (any)
			return cli_misuse(cli, "write the options of each job into its line",
					  "option '--stdin' contradicts options of a job");
		if (!cli_arguments(cli, argc, argv, ""))
			return EX_USAGE;
		if (!cli->conninfo && (rc = cli_config(cli)) != 0)
			return rc;
		if (!cli->conninfo && !cli->shard && config_by_shards(cli->config))
			return add_spread(cli, stdin);
		rc = cli_connect(cli, true);
		return rc != 0 ? rc : add_lines(cli, stdin);
	}
	if (!cli_arguments(cli, argc, argv, "FUNCTION [PARAMS]"))
		return EX_USAGE;
	if (events.len == 0 && (events.within || events.on_timeout))
		return cli_misuse(cli, "name the event with --wait-for", "option '--wait-for' is missing");
	params = cli_params(cli, argv[optind + 1], &given, &rc);
	if (params)
		rc = add_events(&events, after, &opts.after_len, &err) < 0
			     ? cli_fail(cli, &err)
			     : add_one(cli, argv[optind], params, &opts, route);
	for (size_t i = 0; i < events.len; i++)
		free(events.json[i]);
	free(given);
	return rc;
}

const struct cmd cmd_add = {
	"add", "FN [JSON|-] [OPTION...]\n--stdin", "defer calls", cmd_add_run, "deferred_producer", NULL, SHARDS_ONE,
};
