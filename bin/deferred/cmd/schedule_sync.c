/* SPDX-License-Identifier: MIT */
/* schedule sync: the schedules that files declare. */
#include "cmd_schedule.h"
#include "port/params.h"
#include "store/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The arguments of deferred.schedule() that are not in its options. */
static const struct {
	const char *member, *key;
} arguments[] = { { "rule", "rule" }, { "function", "fn" }, { "params", "params" } };

static const char *key_of(const char *member)
{
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
		if (strcmp(arguments[i].member, member) == 0)
			return arguments[i].key;
	return NULL;
}

static int schedule_sync_missing(const struct config *config, const struct config_section *s,
				 struct deferred_error *err)
{
	for (size_t i = 0; i < 2; i++) {
		bool found = false;

		for (size_t k = 0; k < s->len; k++)
			found |= strcmp(s->members[k].name, arguments[i].member) == 0;
		if (!found)
			return error_set(
				err, DEFERRED_ECONFIG, "schedule",
				"%.256s: schedule '%.100s' has no %s\nadd the member, such as rule = \"@daily\"",
				config_path(config), s->name, arguments[i].member);
	}
	return 0;
}

/* The schedules of a file as JSON; params stay a text, in which the server finds JSON or refuses it. */
static int write_schedules(const struct config *config, char **json, struct deferred_error *err)
{
	size_t len;
	const struct config_section *schedules = config_schedules(config, &len);
	struct params_text t = { 0 };
	int rc = 0;

	params_open(&t, NULL, '[');
	for (size_t i = 0; i < len && rc == 0; i++) {
		const struct config_section *s = &schedules[i];
		bool zone = false;

		rc = schedule_sync_missing(config, s, err);
		params_open(&t, NULL, '{');
		params_string(&t, "name", s->name);
		for (size_t k = 0; k < s->len; k++)
			if (key_of(s->members[k].name))
				params_string(&t, key_of(s->members[k].name), s->members[k].value);
		params_open(&t, "opts", '{');
		for (size_t k = 0; k < s->len; k++) {
			zone |= strcmp(s->members[k].name, "timezone") == 0;
			if (!key_of(s->members[k].name))
				params_string(&t, s->members[k].name, s->members[k].value);
		}
		if (!zone)
			params_string(&t, "timezone", config_text(config, "timezone"));
		params_close(&t, '}');
		params_close(&t, '}');
	}
	params_close(&t, ']');
	if (rc < 0)
		free(t.p);
	return rc < 0 ? rc : params_take(&t, json, err);
}

/* One file. Its name without the folder is the source: a release may lie in another one than that before it. */
static int sync_file(struct cli *cli, const char *path, bool prune, bool dry)
{
	const char *slash = strrchr(path, '/');
	struct deferred_error err = { 0 };
	struct config *config = NULL;
	struct pg_result *res = NULL;
	char *json = NULL;
	int rc;

	if (access(path, R_OK) < 0)
		return cli_no_input(cli, path, "correct the path");
	rc = config_load(&config, path, &err);
	if (rc == 0)
		rc = write_schedules(config, &json, &err);
	if (rc == 0)
		rc = store_schedule_sync(cli->pg, slash ? slash + 1 : path, json, prune, dry, &res, &err);
	if (rc < 0) {
		if (err.code == DEFERRED_EDB)
			error_prefix(&err, "%.200s", path);
		rc = cli_fail(cli, &err);
	} else if (cli->json) {
		cli_print_json_array(res);
		putchar('\n');
	}
	for (size_t i = 0; rc == EX_OK && !cli->json && i < pg_rows(res); i++) {
		struct schedule_sync_row r = schedule_sync_row(res, i);

		printf("%-9s %s\n", r.what, r.name);
	}
	pg_result_free(res);
	free(json);
	config_free(config);
	return rc;
}

int schedule_sync(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "prune", NULL, "remove schedules that left the file", 'p' },
		{ "dry-run", NULL, "change nothing", 'd' },
		{ 0 },
	};
	bool prune = false, dry = false;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c != 'p' && c != 'd')
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		prune |= c == 'p';
		dry |= c == 'd';
	}
	if (!cli_arguments(cli, argc, argv, "FILE..."))
		return EX_USAGE;
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	for (int i = optind; i < argc && rc == EX_OK; i++)
		rc = sync_file(cli, argv[i], prune, dry);
	return rc;
}
