/* SPDX-License-Identifier: MIT */
/* run: a function here and now, in a runner as under check_deferred, without a database. */
#include "cmd.h"

#include "port/params.h"
#include "replay/local.h"

#include <stdlib.h>
#include <string.h>

static int run_here(struct cli *cli, const char *fn, const char *params, const char *plugin_dir, const char *timeout)
{
	static const struct local local = { .unsaved = "there being no queue",
					    .plugin = "",
					    .removes = true,
					    .failed = CLI_NOT_DONE,
					    .crashed = CLI_NOT_DONE,
					    .timeout = CLI_NOT_DONE };
	struct deferred_error err = { 0 };
	struct job *job;
	int rc;

	if (params_check(params, strlen(params), &err) < 0)
		return cli_fail(cli, &err);
	rc = cli_config(cli);
	if (rc != 0)
		return rc;
	if ((plugin_dir && config_override(cli->config, "plugin_dir", plugin_dir, "--plugin-dir", &err) < 0) ||
	    (timeout && config_override(cli->config, "timeout", timeout, "--timeout", &err) < 0)) {
		cli_fail(cli, &err);
		return EX_USAGE;
	}
	job = job_new("default", fn, "", params, strlen(params));
	if (!job) {
		error_set(&err, DEFERRED_ENOMEM, "run", "out of memory");
		return cli_fail(cli, &err);
	}
	job->attempt = 1;
	return local_run(cli, &local, job);
}

static int cmd_run_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "plugin-dir", "DIR", "folder of the plugins", 'p', "the setting" },
		{ "timeout", "SPAN", "limit of the attempt", 't', "the setting" },
		{ 0 },
	};
	const char *plugin_dir = NULL, *timeout = NULL, *params;
	char *given;
	int opt, rc;

	while ((opt = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (opt == CLI_OPT_BAD || opt == CLI_OPT_HELP)
			return opt == CLI_OPT_BAD ? EX_USAGE : EX_OK;
		*(opt == 'p' ? &plugin_dir : &timeout) = optarg;
	}
	if (!cli_arguments(cli, argc, argv, "FUNCTION [PARAMS]"))
		return EX_USAGE;
	params = cli_params(cli, argv[optind + 1], &given, &rc);
	if (params)
		rc = run_here(cli, argv[optind], params, plugin_dir, timeout);
	free(given);
	return rc;
}

const struct cmd cmd_run = {
	"run", "FN [JSON|-] [OPTION...]", "run a function here and now", cmd_run_run, NULL, NULL, SHARDS_NONE,
};
