/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "program/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Beside it, and then renamed: who reads the file sees all or what was there before. */
static int write_file(const char *path, const char *text, size_t len)
{
	size_t size = strlen(path) + sizeof(".XXXXXX");
	char *beside = malloc(size);
	const char *failed = NULL;
	int fd = -1;

	if (beside)
		snprintf(beside, size, "%s.XXXXXX", path);
	if (!beside || (fd = mkstemp(beside)) < 0)
		failed = "make";
	while (!failed && len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno != EINTR)
			failed = "write";
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	if (!failed && fchmod(fd, 0644) < 0)
		failed = "write";
	if (fd >= 0 && close(fd) < 0 && !failed)
		failed = "write";
	if (!failed && rename(beside, path) < 0)
		failed = "rename";
	if (failed) {
		fprintf(stderr,
			"deferred: cannot %s a file next to '%s': %s\nhint: name a file with --textfile in a folder "
			"that this user may write to\n",
			failed, path, strerror(errno));
		if (fd >= 0)
			unlink(beside);
	}
	free(beside);
	return failed ? EX_CANTCREAT : EX_OK;
}

static int cmd_metrics_run(struct cli *cli, int argc, char **argv)
{
	enum { OPT_TEXTFILE, OPT_OPENMETRICS };
	static const struct program_option own[] = {
		{ "textfile", "FILE", "write to this file", OPT_TEXTFILE, "standard output" },
		{ "openmetrics", NULL, "print OpenMetrics", OPT_OPENMETRICS },
		{ 0 },
	};
	struct deferred_error err = { 0 };
	const char *path = NULL;
	bool open = false;
	char *text = NULL;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (c == OPT_TEXTFILE)
			path = optarg;
		else if (c == OPT_OPENMETRICS)
			open = true;
		else
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if (cli->json)
		return cli_misuse(cli, "leave --json out; deferred status --json prints JSON",
				  "option '--json' is not possible: metrics have a format of their own");
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	rc = metrics_text(cli->pg, open ? NULL : &text, open ? &text : NULL, &err);
	if (rc < 0)
		rc = cli_fail(cli, &err);
	else if (path)
		rc = write_file(path, text, strlen(text));
	else
		fputs(text, stdout);
	free(text);
	return rc;
}

const struct cmd cmd_metrics = {
	"metrics", "[OPTION...]", "print figures for Prometheus", cmd_metrics_run, "deferred_viewer", NULL, SHARDS_ONE,
};
