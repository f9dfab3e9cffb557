/* SPDX-License-Identifier: MIT */
/*
 * Attempts as spans, for a collector of traces. They are read by the time at which they ended, a slice at a time, so
 * that no snapshot is old and no answer large.
 *
 * An attempt may be recorded late, in a slice that was read before: its worker lost the server, or its transaction
 * stayed open after deferred.finish(). With --follow each slice is therefore read three times, at an age of 2 s, 1 min
 * and 70 min. Spans that were written before are left out. Folding looks back 70 min, too.
 */
#include "cmd.h"

#include "base/clock.h"
#include "base/job.h"
#include "base/traceparent.h"
#include "deferred.h"
#include "otlp.h"
#include "push.h"
#include "rows/history.h"
#include "seen.h"
#include "store/spans.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define S INT64_C(1000000)
#define EPOCH_US (INT64_C(946684800) * S) /* 2000, since 1970 */
#define SINCE_MS (60 * 60 * 1000)
#define SLICE_FIRST (10 * S)
#define SLICE_MAX (30 * 24 * 60 * 60 * S)
#define POLL_MS 1000

/* A line is not to be longer than what readers of files take, a MiB by default. */
#define SPANS_A_LINE 64

static const struct {
	int64_t age, every;
} passes[] = { { 2 * S, 1 * S }, { 60 * S, 10 * S }, { 70 * 60 * S, 60 * S } };
#define PASSES (sizeof(passes) / sizeof(passes[0]))
#define OLDEST (passes[PASSES - 1].age)

struct spans {
	struct cli *cli;
	bool all, follow, errors;
	int64_t slice;
	int64_t at[PASSES]; /* so far each has come */
	int64_t turned;
	struct seen seen;
	struct push *push; /* NULL: spans are printed */
	struct otlp_span batch[SPANS_A_LINE];
	size_t len;
};

static volatile sig_atomic_t ended;

static void spans_on_signal(int number)
{
	(void)number;
	ended = 1;
}

/* A line that was begun is ended. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = spans_on_signal, .sa_flags = SA_RESETHAND };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static int write_batch(struct spans *s, struct deferred_error *err)
{
	char *line = NULL;
	int rc = 0;

	if (s->len > 0 && s->push)
		rc = push_send(s->push, s->batch, s->len, err);
	else if (s->len > 0)
		rc = otlp_line(s->batch, s->len, &line, err);
	if (rc == 0 && line)
		puts(line);
	free(line);
	s->len = 0;
	return rc;
}

/* A value that another program stored may be no trace context. */
static int spans_write_row(struct spans *s, const struct pg_result *res, size_t row, struct deferred_error *err)
{
	struct spans_row r = spans_row(res, row);
	int outcome = job_outcome_of(r.outcome);
	struct otlp_span span = {
		.job = r.job,
		.attempt = r.attempt,
		.queue = r.queue,
		.fn = r.fn,
		.traceparent = r.traceparent,
		.outcome = r.outcome,
		.final = r.final,
		.failed = outcome != JOB_OK && outcome != JOB_SNOOZED,
		.start_us = r.started_at + EPOCH_US,
		.end_us = r.finished_at + EPOCH_US,
		.wait_us = !r.has_wait_us ? -1 : r.wait_us,
		.worker = r.worker,
		.error = r.error,
	};

	span.id = otlp_span_id(span.job, span.attempt, span.end_us);
	if (!traceparent_valid(span.traceparent) || (s->follow && !seen_first(&s->seen, span.id)))
		return 0;
	s->batch[s->len++] = span;
	return s->len == SPANS_A_LINE ? write_batch(s, err) : 0;
}

/* One slice; narrower where it has too much, wider where it has little. Times of which there is more than that in a
 * microsecond are read as they are. */
static int read_slice(struct spans *s, int64_t *at, int64_t end, struct deferred_error *err)
{
	int64_t to = end - *at < s->slice ? end : *at + s->slice;
	bool any = to - *at <= 1, full = false;
	struct pg_result *res;
	int rc = store_spans(s->cli->pg, *at, to, any, s->all, s->errors, &full, &res, err);

	if (rc == 0 && full) {
		s->slice = (to - *at) / 4 > 1 ? (to - *at) / 4 : 1;
	} else if (rc == 0) {
		for (size_t row = 1; rc == 0 && row < pg_rows(res); row++)
			rc = spans_write_row(s, res, row, err);
		if (rc == 0)
			rc = write_batch(s, err);
		if (spans_row(res, 0).job < STORE_SPANS_ROWS / 8 && to < end && s->slice < SLICE_MAX)
			s->slice *= 4;
		*at = to;
	}
	pg_result_free(res);
	return rc;
}

static bool output_ends(const struct spans *s)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return !s->push && (fflush(stdout) != 0 || ferror(stdout) ||
			    (poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLNVAL))));
}

static int read_to(struct spans *s, int64_t *at, int64_t end, struct deferred_error *err)
{
	int rc = 0;

	while (rc == 0 && *at < end && !ended && !output_ends(s))
		rc = read_slice(s, at, end, err);
	return rc;
}

/* A span is remembered while its slice may be read again. */
static void spans_remember(struct spans *s, int64_t now)
{
	if (now - s->turned < OLDEST + 10 * 60 * S)
		return;
	seen_turn(&s->seen);
	s->turned = now;
}

static int spans_follow(struct spans *s, struct deferred_error *err)
{
	struct spans_now_row now;
	int rc = 0;

	while (rc == 0 && !ended && !output_ends(s)) {
		struct pollfd out = { .fd = s->push ? -1 : STDOUT_FILENO };

		rc = spans_now_one(s->cli->pg, NULL, 0, &now, err);
		for (size_t i = 0; rc == 0 && i < PASSES; i++)
			if (now.now - passes[i].age - s->at[i] >= passes[i].every)
				rc = read_to(s, &s->at[i], now.now - passes[i].age, err);
		spans_remember(s, now.now);
		if (rc == 0 && !ended && !output_ends(s))
			poll(&out, 1, POLL_MS);
	}
	return rc;
}

/* The position at which a new start continues. */
static void tell_end(const struct spans *s)
{
	time_t at_s = (time_t)((s->at[0] + EPOCH_US) / S);
	char text[32];
	struct tm tm;

	if (gmtime_r(&at_s, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		fprintf(stderr,
			"deferred: %s the attempts that ended before %s\nhint: go on with --since and this time\n",
			s->push ? "sent" : "printed", text);
}

static int spans_read_all(struct spans *s, const struct spans_now_row *now, struct deferred_error *err)
{
	int64_t since_us = now->since > 0 ? now->since : 0; /* no attempt ended before 2000 */

	s->errors = now->may_read;
	s->turned = now->now;
	s->at[0] = since_us;
	for (size_t i = 1; i < PASSES; i++)
		s->at[i] = since_us > now->now - passes[i].age ? since_us : now->now - passes[i].age;
	return s->follow ? spans_follow(s, err) : read_to(s, &s->at[0], now->now, err);
}

static int cmd_spans_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "since", "TIME", "start at this time, or so long ago", 's', "1h" },
		{ "follow", NULL, "continue with attempts that end later", 'f' },
		{ "all", NULL, "include traces that are not sampled", 'a' },
		{ "endpoint", "URL", "send the spans to this collector", 'e', "the setting otlp.endpoint",
		  .empty = true },
		{ 0 },
	};
	struct spans s = { .cli = cli, .slice = SLICE_FIRST };
	struct deferred_error err = { 0 };
	struct spans_now_row now;
	const char *since = NULL, *endpoint = NULL;
	int64_t since_ms = SINCE_MS;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		switch (c) {
		case 's':
			if (!cli_moment(cli, "--since", optarg, &since_ms, &since))
				return EX_USAGE;
			break;
		case 'f':
			s.follow = true;
			break;
		case 'a':
			s.all = true;
			break;
		case 'e':
			endpoint = optarg;
			break;
		default:
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		}
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	if (!endpoint)
		endpoint = config_text(cli->config, "otlp.endpoint");
	if (endpoint && *endpoint && (rc = push_open(&s.push, cli, endpoint, s.follow, &ended)) != 0) {
		push_close(s.push);
		return rc;
	}
	catch_signals();
	rc = spans_now_one(cli->pg, since, since_ms, &now, &err);
	if (rc < 0 && since) {
		push_close(s.push);
		return cli_fail_time(cli, "--since", since, &err);
	}
	if (rc == 0)
		rc = spans_read_all(&s, &now, &err);
	seen_clear(&s.seen);
	push_close(s.push);
	if (s.follow || (s.push && (rc != 0 || ended)))
		tell_end(&s);
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

const struct cmd cmd_spans = {
	"spans", "[OPTION...]", "write attempts as OpenTelemetry spans", cmd_spans_run, "deferred_viewer",
	NULL,    SHARDS_ONE,
};
