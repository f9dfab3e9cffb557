/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "settings.h"
#include "store/admin.h"
#include "table.h"
#include "base/text/names.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- ls */

static void cell_span(struct table *t, bool known, int64_t ms)
{
	char span[SETTINGS_RATE_SIZE];

	table_cell(t, "%s", known ? settings_span(span, ms) : "");
}

static const char *queue_rate_text(char text[SETTINGS_RATE_SIZE], double a_second, bool has_burst, int64_t burst)
{
	size_t len;

	settings_rate(text, a_second);
	len = strlen(text);
	if (has_burst)
		snprintf(text + len, SETTINGS_RATE_SIZE - len, " burst %" PRId64, burst);
	return text;
}

/* The running jobs with their maximum, and the rate with its burst. */
static void cells_limits(struct table *t, const struct admin_queue_ls_row *r)
{
	char rate[SETTINGS_RATE_SIZE];

	if (r->has_running && r->has_max_running)
		table_cell(t, "%" PRId64 " of %" PRId64, r->running, r->max_running);
	else
		table_number(t, r->has_running, r->running);
	table_cell(t, "%s", r->has_rate ? queue_rate_text(rate, r->rate, r->has_burst, r->burst) : "");
}

/* Settings that few queues have: a column each where one has. */
static const char *const rare[] = { ">MIN BACK-OFF", ">MAX BACK-OFF", ">EXPONENT", ">MAX DEQUEUE", ">MAX PARAMS",
				    "METADATA",      "ON DEAD",       ">AGE",      ">KEY RATE",    "PATTERN" };
#define RARE (sizeof(rare) / sizeof(rare[0]))

static const char *queue_number_text(char text[SETTINGS_RATE_SIZE], int64_t n)
{
	snprintf(text, SETTINGS_RATE_SIZE, "%" PRId64, n);
	return text;
}

/* NULL: the queue does not have that setting. */
static const char *rare_text(char text[SETTINGS_RATE_SIZE], const struct admin_queue_ls_row *r, size_t which)
{
	switch (which) {
	case 0:
		return r->has_backoff_floor_ms ? settings_span(text, r->backoff_floor_ms) : NULL;
	case 1:
		return r->has_backoff_ceiling_ms ? settings_span(text, r->backoff_ceiling_ms) : NULL;
	case 2:
		if (!r->has_backoff_exponent)
			return NULL;
		snprintf(text, SETTINGS_RATE_SIZE, "%g", r->backoff_exponent);
		return text;
	case 3:
		return r->has_max_dequeue ? queue_number_text(text, r->max_dequeue) : NULL;
	case 4:
		return r->has_params_max_bytes ? queue_number_text(text, r->params_max_bytes) : NULL;
	case 5:
		return r->metadata;
	case 6:
		return r->on_dead;
	case 7:
		return r->has_age_ms ? settings_span(text, r->age_ms) : NULL;
	case 8:
		return r->has_key_rate ? queue_rate_text(text, r->key_rate, r->has_key_burst, r->key_burst) : NULL;
	default:
		return r->pattern;
	}
}

static void queue_print_queues(const struct pg_result *res)
{
	const char *headers[10 + RARE] = { "QUEUE",  "PAUSED", ">RUNNING", ">RATE",   ">MAX LENGTH",
					   ">LEASE", ">TTL",   ">TRIES",   ">WEIGHT", "FUNCTION" };
	char text[SETTINGS_RATE_SIZE];
	bool shown[RARE] = { false };
	int cols = 10;
	struct table t;

	for (size_t k = 0; k < RARE; k++) {
		for (size_t i = 0; i < pg_rows(res); i++) {
			struct admin_queue_ls_row r = admin_queue_ls_row(res, i);

			shown[k] |= rare_text(text, &r, k) != NULL;
		}
		if (shown[k])
			headers[cols++] = rare[k];
	}
	table_begin(&t, headers, cols);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_queue_ls_row r = admin_queue_ls_row(res, i);

		table_cell(&t, "%s", r.name);
		table_cell(&t, "%s%s",
			   !r.paused        ? ""
			   : r.paused_until ? "until "
					    : "paused",
			   r.paused && r.paused_until ? r.paused_until : "");
		cells_limits(&t, &r);
		if (r.has_max_length)
			table_cell(&t, "%" PRId64 " %s", r.max_length, r.on_full);
		else
			table_cell(&t, "%s", "");
		cell_span(&t, r.has_visibility_timeout_ms, r.visibility_timeout_ms);
		cell_span(&t, r.has_ttl_ms, r.ttl_ms);
		table_number(&t, r.has_max_attempts, r.max_attempts);
		table_cell(&t, "%g", r.weight);
		table_cell(&t, "%s", r.fn);
		for (size_t k = 0; k < RARE; k++)
			if (shown[k])
				table_cell(&t, "%s", rare_text(text, &r, k) ? rare_text(text, &r, k) : "");
	}
	table_end(&t);
}

static int cmd_queue_ls(struct cli *cli, const char *queue)
{
	struct deferred_error err = { 0 };
	struct pg_result *res;

	if (admin_queue_ls_exec(cli->pg, queue, &res, &err) < 0)
		return cli_fail(cli, &err);
	if (!queue || pg_rows(res) > 0)
		return cli_list(cli, res, queue_print_queues);
	pg_result_free(res);
	error_set(&err, DEFERRED_ENOTFOUND, "queue", "queue '%.64s' does not exist", queue);
	error_hint(&err, "list the queues: deferred queue ls");
	return cli_fail(cli, &err);
}

static void print_patterns(const struct pg_result *res)
{
	static const char *const headers[] = { "PATTERN", "SETTINGS", ">QUEUES" };

	cli_print_columns(res, headers, 3, "patterns");
}

static int cmd_queue_patterns(struct cli *cli)
{
	struct deferred_error err = { 0 };
	struct pg_result *res;

	if (admin_pattern_ls_exec(cli->pg, &res, &err) < 0)
		return cli_fail(cli, &err);
	return cli_list(cli, res, print_patterns);
}

/* ---- set, pause, resume */

static int cmd_queue_set(struct cli *cli, const char *queue, const struct settings *s, bool create)
{
	struct deferred_error err = { 0 };
	int64_t marked = 0;
	int rc = admin_queue_set_exec(cli->pg, queue, s->name, s->n, s->value, s->n, s->metadata, create,
				      store_admin_user(), &err);

	/* The setting holds from here on. The rest is work that claims would do otherwise. */
	if (rc == 0)
		rc = store_admin_mark(cli->pg, &marked, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	if (!cli->json)
		return EX_OK;
	return names_is_pattern(queue) ? cmd_queue_patterns(cli) : cmd_queue_ls(cli, queue);
}

/* All of them in one transaction. */
static int set_paused(struct cli *cli, const char *const *queues, int n, bool paused)
{
	static const char *const name[] = { "paused" }, *const value[] = { "true" }, *const none[] = { NULL };
	struct deferred_error err = { 0 };
	int rc = pg_begin(cli->pg, "", &err);

	for (int i = 0; i < n && rc == 0; i++)
		rc = admin_queue_set_exec(cli->pg, queues[i], name, 1, paused ? value : none, 1, NULL, false,
					  store_admin_user(), &err);
	if (rc == 0)
		rc = pg_command(cli->pg, "commit", &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		printf("[");
	for (int i = 0; i < n; i++)
		printf(cli->json ? "%s{\"queue\": \"%s\", \"paused\": %s}" : "%s%s %s\n", cli->json && i ? ",\n " : "",
		       queues[i], cli->json ? (paused ? "true" : "false") : (paused ? "paused" : "resumed"));
	if (cli->json)
		puts("]");
	return EX_OK;
}

/* All queues, except those that are in that state already. A pause until a time is not what was asked for. */
static int set_all_paused(struct cli *cli, bool paused)
{
	struct deferred_error err = { 0 };
	const char **queues = NULL;
	struct pg_result *res;
	int n = 0, rc;

	if (admin_queue_ls_exec(cli->pg, NULL, &res, &err) < 0)
		return cli_fail(cli, &err);
	queues = calloc(pg_rows(res) + 1, sizeof(*queues));
	for (size_t i = 0; queues && i < pg_rows(res); i++) {
		struct admin_queue_ls_row r = admin_queue_ls_row(res, i);

		if (r.paused != paused || (paused && r.paused_until))
			queues[n++] = r.name;
	}
	if (queues)
		rc = set_paused(cli, queues, n, paused);
	else
		rc = cli_fail(cli, (error_set(&err, DEFERRED_ENOMEM, "queue", "out of memory"), &err));
	free(queues);
	pg_result_free(res);
	return rc;
}

/* ---- clear, rm */

static bool confirmed(const char *queue, int64_t hot)
{
	char answer[16];

	fprintf(stderr, "cancel %" PRId64 "%s job%s of queue %s? [y/N] ", hot, hot == STORE_ADMIN_COUNT_MAX ? "+" : "",
		plural(hot), queue);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int queue_refuse(const char *queue, int64_t hot, const char *hint)
{
	fprintf(stderr, "deferred: queue '%s' holds %" PRId64 "%s job%s still to be run\nhint: %s\n", queue, hot,
		hot == STORE_ADMIN_COUNT_MAX ? "+" : "", plural(hot), hint);
	return CLI_NOT_DONE;
}

static int clear_or_remove(struct cli *cli, const char *queue, bool rm, bool yes, bool force)
{
	struct deferred_error err = { 0 };
	int64_t hot = 0, last = 0, cancelled = 0;
	int rc = names_is_pattern(queue) ? 0 : store_admin_queue_hot(cli->pg, queue, &hot, &last, &err);

	if (rc < 0)
		return cli_fail(cli, &err);
	if (hot > 0 && rm && !force)
		return queue_refuse(queue, hot, "'deferred queue rm --force' cancels them");
	if (hot > 0 && !yes && !(rm && force)) {
		if (!isatty(STDIN_FILENO))
			return queue_refuse(queue, hot, "--yes cancels them");
		if (!confirmed(queue, hot))
			return CLI_NOT_DONE;
	}
	cli_set_limits(cli, true);
	if (hot > 0)
		rc = store_admin_queue_clear(cli->pg, queue, last, &cancelled, &err);
	if (rc == 0 && rm)
		rc = admin_queue_rm_exec(cli->pg, queue, store_admin_user(), &err);
	if (cli->json)
		printf("{\"queue\": \"%s\", \"cancelled\": %" PRId64 ", \"removed\": %s}\n", queue, cancelled,
		       rm && rc == 0 ? "true" : "false");
	else if (rc == 0 || cancelled > 0)
		printf("%s: %" PRId64 " job%s cancelled%s\n", queue, cancelled, plural(cancelled),
		       rm && rc == 0 ? ", removed" : "");
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

/* ---- the command */

enum { OPT_CREATE = 1, OPT_YES = 2, OPT_FORCE = 4, OPT_ALL = 8 };

/* Options and queues of a word. */
struct line {
	struct settings settings;
	int given;         /* OPT_... */
	const char *names; /* of arguments */
	bool pattern;      /* a pattern may stand for a queue */
};

/* False: the word ends with *rc. */
static bool queue_read_line(struct cli *cli, int argc, char **argv, const struct program_option *options,
			    struct line *line, int *rc)
{
	int c;

	*rc = EX_USAGE;
	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP)
			*rc = EX_OK;
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return false;
		if (c <= OPT_ALL)
			line->given |= c;
		else if (!settings_read(&line->settings, cli, SETTINGS_QUEUE, c, optarg))
			return false;
	}
	if (!cli_arguments(cli, argc, argv, line->names))
		return false;
	for (int i = optind; i < argc; i++)
		if (!names_is_queue(argv[i]) && !(line->pattern && names_is_pattern(argv[i]))) {
			cli_misuse(cli, "a name has 1 to 88 letters, digits, '_', '.' and '-'",
				   "queue name '%.64s' is invalid", argv[i]);
			return false;
		}
	return true;
}

static int queue_ls(struct cli *cli, int argc, char **argv)
{
	struct line line = { .names = "[QUEUE]" };
	int rc;

	cli->role = "deferred_viewer";
	if (!queue_read_line(cli, argc, argv, NULL, &line, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_queue_ls(cli, argv[optind]);
}

static int queue_patterns(struct cli *cli, int argc, char **argv)
{
	struct line line = { .names = "" };
	int rc;

	cli->role = "deferred_viewer";
	if (!queue_read_line(cli, argc, argv, NULL, &line, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_queue_patterns(cli);
}

static int queue_set(struct cli *cli, int argc, char **argv)
{
	struct program_option options[24] = {
		{ "create", NULL, "add the queue if it does not exist", OPT_CREATE },
	};
	struct line line = { .names = "QUEUE", .pattern = true };
	int rc;

	settings_options(SETTINGS_QUEUE, options, 1);
	if (!queue_read_line(cli, argc, argv, options, &line, &rc))
		return rc;
	if (line.settings.n == 0 && !line.settings.metadata && !line.given)
		return cli_usage(cli, "a setting is missing");
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_queue_set(cli, argv[optind], &line.settings, line.given & OPT_CREATE);
}

static int queue_pause(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "all", NULL, "all queues", OPT_ALL },
		{ 0 },
	};
	struct line line = { .names = "[QUEUE...]" };
	bool paused = argv[0][0] == 'p';
	int rc;

	if (!queue_read_line(cli, argc, argv, options, &line, &rc))
		return rc;
	if ((line.given & OPT_ALL) != 0 && optind < argc)
		return cli_misuse(cli, "name queues, or leave them out", "queue '%.64s' contradicts option '--all'",
				  argv[optind]);
	if (!line.given && optind == argc)
		return cli_misuse(cli, "name a queue, or use --all", "argument QUEUE is missing");
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	return line.given ? set_all_paused(cli, paused)
			  : set_paused(cli, (const char *const *)argv + optind, argc - optind, paused);
}

static int queue_clear(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "yes", NULL, "do not ask", OPT_YES },
		{ 0 },
	};
	struct line line = { .names = "QUEUE" };
	int rc;

	if (!queue_read_line(cli, argc, argv, options, &line, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return clear_or_remove(cli, argv[optind], false, line.given & OPT_YES, false);
}

static int queue_rm(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "yes", NULL, "do not ask", OPT_YES },
		{ "force", NULL, "cancel unfinished jobs", OPT_FORCE },
		{ 0 },
	};
	struct line line = { .names = "QUEUE", .pattern = true };
	int rc;

	if (!queue_read_line(cli, argc, argv, options, &line, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return clear_or_remove(cli, argv[optind], true, line.given & OPT_YES, line.given & OPT_FORCE);
}

static int cmd_queue_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = {
		{ "ls", queue_ls },
		{ "patterns", queue_patterns },
		{ "set", queue_set },
		{ "pause", queue_pause },
		{ "resume", queue_pause },
		{ "clear", queue_clear },
		{ "rm", queue_rm },
		{ 0 },
	};

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_queue = {
	"queue",
	"ls [QUEUE]\n"
	"patterns\n"
	"set QUEUE|PATTERN OPTION...\n"
	"pause|resume QUEUE...\n"
	"pause|resume --all\n"
	"clear QUEUE [--yes]\n"
	"rm QUEUE|PATTERN [--force]",
	"set, pause and clear queues",
	cmd_queue_run,
	"deferred_worker",
	"ls, patterns, set, pause, resume, clear and rm",
};
