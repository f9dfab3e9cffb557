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
	*filter = (struct filter){ .ago_ms = { -1, -1, -1, -1 } };
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

static const char *const times[FILTER_TIMES] = { "--since", "--until", "--ended-since", "--ended-until" };

static const char **time_member(struct filter *filter, int i)
{
	const char **members[FILTER_TIMES] = { &filter->jobs.since, &filter->jobs.until, &filter->jobs.ended_since,
					       &filter->jobs.ended_until };

	return members[i];
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
		i = code - FILTER_SINCE;
		*time_member(filter, i) = value;
		return cli_moment(cli, times[i], value, &filter->ago_ms[i], &filter->moment[i]);
	}
}

int filter_times(const struct cli *cli, struct filter *filter)
{
	for (int i = 0; i < FILTER_TIMES; i++) {
		struct deferred_error err = { 0 };
		const char **time = time_member(filter, i), *given = *time;
		struct pg_result *res;

		if (!given)
			continue;
		if (admin_time_exec(cli->pg, filter->moment[i], filter->ago_ms[i] < 0 ? NULL : &filter->ago_ms[i], &res,
				    &err) < 0)
			return cli_fail_time(cli, times[i], given, &err);
		snprintf(filter->time[i], sizeof(filter->time[i]), "%s", admin_time_row(res, 0).time);
		*time = filter->time[i];
		pg_result_free(res);
	}
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

int filter_run_bulk(struct cli *cli, struct filter *filter, const char *done, enum store_admin_verb verb, bool dry)
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
		else if (c == 's')
			filter.jobs.from_start = true;
		else if (c < FILTER_STATE)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		else if (!filter_option(cli, &filter, c, optarg, states))
			return EX_USAGE;
	}
	if (filter.given > 0 && optind < argc)
		return cli_misuse(cli, "give either ids or a filter", "argument '%.64s' contradicts the filter",
				  argv[optind]);
	if (filter.given > 0)
		return filter_run_bulk(cli, &filter, done, verb, dry);
	if (dry)
		return cli_misuse(cli, "give a filter, such as --fn send_mail", "option '--dry-run' needs a filter");
	return cli_each_id(cli, argc, argv, done, filter.jobs.from_start ? store_admin_retry_from_start : one);
}
