/* SPDX-License-Identifier: MIT */
/* schedule set: a call and the times at which it is deferred. */
#include "cmd_schedule.h"
#include "port/params.h"
#include "store/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 3 /* ticks: zone and offset are to be seen before the first of them is wrong */

/* As deferred.schedule() calls them; an option has "-" where there is "_". The server checks the values, which a file brings too. */
static const char *const names[] = {
	"timezone", "queue", "missed", "late", "overlap", "jitter", "label", "priority", "expires", "max_attempts", "timeout",
	"backoff_floor", "backoff_ceiling", "backoff_exponent", "concurrency_key", "concurrency",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

static void make_options(struct option options[NAMES + 1], char words[NAMES][24])
{
	memset(options, 0, (NAMES + 1) * sizeof(*options));
	for (size_t i = 0; i < NAMES; i++) {
		snprintf(words[i], sizeof(words[i]), "%s", names[i]);
		for (char *p = words[i]; *p; p++)
			*p = *p == '_' ? '-' : *p;
		options[i] = (struct option){ words[i], required_argument, NULL, (int)i + 1 };
	}
}

static bool has_unit(const struct cli *cli, const char *name, const char *word, const char *text)
{
	static const char *const spans[] = {
		"late", "jitter", "expires", "timeout", "backoff_floor", "backoff_ceiling",
	};

	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
		if (strcmp(name, spans[i]) == 0)
			return cli_has_unit(cli, word, text);
	return true;
}

static int store(struct cli *cli, char **argv, const char *params, const char *opts)
{
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL, *next = NULL;
	int rc = cli_connect(cli, true);

	if (rc != 0)
		return rc;
	if (store_schedule_set(cli->pg, argv[0], argv[1], argv[2], params, opts, &res, &err) < 0 ||
	    store_schedule_next(cli->pg, argv[0], SHOWN, NULL, &next, &err) < 0) {
		pg_result_free(res);
		return cli_fail(cli, &err);
	}
	if (cli->json) {
		printf("{\"schedule\": \"%s\", \"what\": \"%s\", \"next\": ", argv[0], pg_text(res, 0, 0, NULL));
		cli_print_json_array(next, 2);
		puts("}");
	} else {
		printf("%s %s\n", argv[0], pg_text(res, 0, 0, NULL));
		for (size_t i = 0; i < pg_rows(next); i++)
			printf("%s  %s\n", pg_text(next, i, 0, NULL), pg_text(next, i, 1, NULL));
	}
	pg_result_free(res);
	pg_result_free(next);
	return EX_OK;
}

int schedule_set(struct cli *cli, int argc, char **argv)
{
	struct option options[NAMES + 1];
	struct params_text t = { 0 };
	struct deferred_error err = { 0 };
	char words[NAMES][24];
	char *opts = NULL, *given = NULL;
	const char *params;
	bool zone = false;
	int c, rc = EX_OK;

	make_options(options, words);
	params_open(&t, NULL, '{');
	while (rc == EX_OK && (c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP) {
			free(t.p);
			return EX_OK;
		}
		if (c == CLI_OPT_BAD)
			rc = EX_USAGE;
		else if (!has_unit(cli, names[c - 1], words[c - 1], optarg))
			rc = EX_USAGE;
		else
			params_string(&t, names[c - 1], optarg);
		zone |= c == 1;
	}
	if (rc == EX_OK && (argc - optind < 3 || argc - optind > 4))
		rc = cli_usage(cli, "the schedule's name, a rule and a function are wanted");
	if (rc == EX_OK)
		rc = cli_config(cli);
	if (rc != EX_OK) {
		free(t.p);
		return rc;
	}
	if (!zone)
		params_string(&t, names[0], config_text(cli->config, "timezone"));
	params_close(&t, '}');
	if (params_take(&t, &opts, &err) < 0)
		return cli_fail(cli, &err);
	params = cli_params(cli, argv[optind + 3], &given, &rc);
	if (params && params_check(params, strlen(params), &err) < 0)
		rc = cli_fail(cli, &err);
	else if (params)
		rc = store(cli, argv + optind, params, opts);
	free(given);
	free(opts);
	return rc;
}
