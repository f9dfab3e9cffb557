/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include "table.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void filter_init(struct filter *filter)
{
	*filter = (struct filter){ .ago_ms = { -1, -1 } };
}

static bool take_state(const struct cli *cli, const char *value, const char *const *states)
{
	char list[128] = "";

	if (cli_is_one_of(value, states))
		return true;
	for (const char *const *s = states; *s; s++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			 s == states ? ""
			 : s[1]      ? ", "
				     : " and ",
			 *s);
	cli_bad_value(cli, NULL, "--state", value, "is not one of %s", list);
	return false;
}

bool filter_option(const struct cli *cli, struct filter *filter, int code, const char *value, const char *const *states)
{
	int i;

	filter->given++;
	switch (code) {
	case FILTER_STATE:
		filter->jobs.state = value;
		return take_state(cli, value, states);
	case FILTER_FN:
		filter->jobs.fn = value;
		return true;
	case FILTER_QUEUE:
		filter->jobs.queue = value;
		return true;
	case FILTER_LABEL:
		filter->jobs.label = value;
		return true;
	case FILTER_KEY:
		filter->jobs.key = value;
		return true;
	case FILTER_RULE:
		filter->jobs.rule = value;
		return true;
	case FILTER_BY:
		filter->jobs.by = value;
		return true;
	case FILTER_ERROR:
		filter->jobs.error = value;
		return true;
	case FILTER_TAG:
		filter->jobs.tags = filter->tags;
		return cli_tag(cli, value, filter->tags, &filter->jobs.tags_len);
	default:
		i = code == FILTER_UNTIL;
		return cli_moment(cli, i ? "--until" : "--since", value, &filter->ago_ms[i], &filter->moment[i]);
	}
}

/* Which of the two it is that the database cannot read, it says only where it is asked for one. */
static int fail_times(const struct cli *cli, const struct filter *filter, const struct deferred_error *err)
{
	static const int64_t no_span[2] = { -1, -1 };
	const char *const since[2] = { filter->moment[0] };
	struct deferred_error ignored = { 0 };
	struct pg_result *res = NULL;
	bool until = !filter->moment[0] ||
		     (filter->moment[1] && store_admin_times(cli->pg, since, no_span, &res, &ignored) == 0);

	pg_result_free(res);
	return cli_fail_time(cli, until ? "--until" : "--since", filter->moment[until] ? filter->moment[until] : "",
			     err);
}

int filter_times(const struct cli *cli, struct filter *filter)
{
	struct deferred_error err = { 0 };
	struct admin_times_row r;
	struct pg_result *res;

	if (!filter->moment[0] && !filter->moment[1] && filter->ago_ms[0] < 0 && filter->ago_ms[1] < 0)
		return 0;
	if (store_admin_times(cli->pg, filter->moment, filter->ago_ms, &res, &err) < 0)
		return fail_times(cli, filter, &err);
	r = admin_times_row(res, 0);
	snprintf(filter->time[0], sizeof(filter->time[0]), "%s", r.since ? r.since : "");
	snprintf(filter->time[1], sizeof(filter->time[1]), "%s", r.until ? r.until : "");
	filter->jobs.since = r.since ? filter->time[0] : NULL;
	filter->jobs.until = r.until ? filter->time[1] : NULL;
	pg_result_free(res);
	return 0;
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* The current transaction is finished, so that the report is true. A second signal ends the program. */
static void catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESETHAND | SA_RESTART };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void tell_count(const struct cli *cli, const char *verb, const struct store_admin_bulk *bulk)
{
	if (cli->json)
		printf("{\"jobs\": %" PRId64 ", \"more\": %s}\n", bulk->done, bulk->more ? "true" : "false");
	else
		printf("%s%" PRId64 " job%s to %s\n", bulk->more ? "at least " : "", bulk->done, plural(bulk->done),
		       verb);
}

static void tell_done(const struct cli *cli, const char *done, const struct store_admin_bulk *bulk)
{
	if (cli->json)
		printf("{\"%s\": %" PRId64 ", \"refused\": %" PRId64 ", \"more\": %s}\n", done, bulk->done,
		       bulk->refused, bulk->more ? "true" : "false");
	else
		printf("%" PRId64 " job%s %s\n", bulk->done, plural(bulk->done), done);
}

static void filter_tell_refused(const struct store_admin_bulk *bulk)
{
	cli_say("name one job by its id to see what to do about it", "%" PRId64 " job%s refused, the first: %s",
		bulk->refused, plural(bulk->refused), bulk->why);
}

static int run_bulk(struct cli *cli, struct filter *filter, const char *done, enum store_admin_verb verb, bool dry)
{
	struct store_admin_bulk bulk = { 0 };
	struct deferred_error err = { 0 };
	int rc = cli_connect(cli, true);

	if (rc == 0)
		rc = filter_times(cli, filter);
	if (rc != 0)
		return rc;
	cli_set_limits(cli, !dry);
	catch_interrupts();
	rc = store_admin_some(cli->pg, verb, &filter->jobs, dry, dry ? CLI_LOOK_MS : 0, &interrupted, &bulk, &err);
	bulk.more |= rc < 0;
	if (rc == 0 || bulk.done > 0)
		dry ? tell_count(cli, cli->cmd->name, &bulk) : tell_done(cli, done, &bulk);
	if (bulk.refused > 0)
		filter_tell_refused(&bulk);
	if (rc < 0)
		return cli_fail(cli, &err);
	if (dry)
		return EX_OK;
	if (interrupted && bulk.more)
		cli_say("the same command continues", "interrupted: the printed jobs are done");
	return bulk.refused > 0 || (interrupted && bulk.more) ? CLI_NOT_DONE : EX_OK;
}

int filter_run(struct cli *cli, int argc, char **argv, const struct program_option *options, const char *done,
	       enum store_admin_verb verb, const char *const *states,
	       int (*one)(struct pg *pg, int64_t id, struct deferred_error *err))
{
	struct filter filter;
	bool dry = false;
	int c;

	filter_init(&filter);
	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == 'n')
			dry = true;
		else if (c < FILTER_STATE)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		else if (!filter_option(cli, &filter, c, optarg, states))
			return EX_USAGE;
	}
	if (filter.given > 0 && optind < argc)
		return cli_misuse(cli, "give either ids or a filter", "argument '%.64s' contradicts the filter",
				  argv[optind]);
	if (filter.given > 0)
		return run_bulk(cli, &filter, done, verb, dry);
	if (dry)
		return cli_misuse(cli, "give a filter, such as --fn send_mail", "option '--dry-run' needs a filter");
	return cli_each_id(cli, argc, argv, done, one);
}
