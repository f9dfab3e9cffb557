/* SPDX-License-Identifier: MIT */
/* cli_error - reports of wrong usage and of errors, and their exit codes. */
#include "cmd.h"

#include "store/admin.h"
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 0)))
static void
say(const char *hint, const char *fmt, va_list ap)
{
	char *text = NULL, *clean;

	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	clean = table_clean(text ? text : "out of memory", 0, TABLE_ONE_LINE);
	fprintf(stderr, "deferred: %s\nhint: %s\n", clean, hint);
	free(clean);
	free(text);
}

void cli_say(const char *hint, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(hint, fmt, ap);
	va_end(ap);
}

int cli_misuse(const struct cli *cli, const char *hint, const char *fmt, ...)
{
	char usage[64];
	va_list ap;

	snprintf(usage, sizeof(usage), "deferred%s%s --help shows the usage", cli->cmd ? " " : "",
		 cli->cmd ? cli->cmd->name : "");
	va_start(ap, fmt);
	say(hint ? hint : usage, fmt, ap);
	va_end(ap);
	return EX_USAGE;
}

int cli_bad_value(const struct cli *cli, const char *hint, const char *what, const char *value, const char *fmt, ...)
{
	char wrong[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(wrong, sizeof(wrong), fmt, ap);
	va_end(ap);
	return cli_misuse(cli, hint, what[0] == '-' ? "option '%s': value '%.64s' %s" : "%s '%.64s' %s", what, value,
			  wrong);
}

int cli_none_of(const struct cli *cli, const char *word, const char *words)
{
	if (word && word[0])
		return cli_usage(cli, "argument '%.64s' is not one of %s", word, words);
	return cli_usage(cli, "argument is missing: one of %s", words);
}

/* By the first two characters of the sqlstate: what the server thinks was wrong. */
static int exit_code_of_refusal(const char *sqlstate)
{
	if (strcmp(sqlstate, "42501") == 0 || strncmp(sqlstate, "28", 2) == 0)
		return EX_NOPERM;
	if (strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "54", 2) == 0 || strcmp(sqlstate, "23514") == 0)
		return EX_DATAERR;
	return CLI_NOT_DONE;
}

/* The server's message about missing rights names no role. A member of the role was refused something else. */
static void hint_role(const struct cli *cli, struct deferred_error *err)
{
	struct pg_result *res = NULL;

	if (strcmp(err->sqlstate, "42501") != 0 || !cli->role || !cli->pg || pg_broken(cli->pg))
		return;
	if (pg_in_transaction(cli->pg))
		pg_command(cli->pg, "rollback", NULL);
	if (admin_role_exec(cli->pg, cli->role, &res, NULL) == 0 && !admin_role_row(res, 0).has_rights)
		error_hint(err, "grant %s to %s", cli->role, admin_role_row(res, 0).role);
	pg_result_free(res);
}

int cli_fail(const struct cli *cli, const struct deferred_error *what)
{
	struct deferred_error told = *what, *err = &told;
	char *message, *hint;

	hint_role(cli, err);
	if (err->code == DEFERRED_EDB && !err->hint[0])
		error_hint(err, "the log of the server says more");
	message = table_clean(err->message, 0, TABLE_ONE_LINE);
	hint = table_clean(err->hint, 0, TABLE_ONE_LINE);

	fprintf(stderr, "deferred: %s\n%s%s%s", message, hint[0] ? "hint: " : "", hint, hint[0] ? "\n" : "");
	free(message);
	free(hint);
	switch (err->code) {
	case DEFERRED_EINVAL:
		return EX_DATAERR;
	case DEFERRED_ECONNECT:
		return strcmp(err->where, PG_CONNINFO) == 0 ? EX_CONFIG : EX_UNAVAILABLE;
	case DEFERRED_ELOST:
		return EX_UNAVAILABLE;
	case DEFERRED_ETIMEOUT:
		return EX_TEMPFAIL;
	case DEFERRED_ECONFIG:
	case DEFERRED_ESCHEMA:
		return EX_CONFIG;
	case DEFERRED_ENOMEM:
		return EX_OSERR;
	case DEFERRED_EDB:
		return exit_code_of_refusal(err->sqlstate);
	default:
		return CLI_NOT_DONE;
	}
}

int cli_no_input(const struct cli *cli, const char *path, const char *hint)
{
	struct deferred_error err = { 0 };

	error_errno(&err, DEFERRED_ESYSTEM, "file", "file '%s' cannot be opened", path);
	error_hint(&err, "%s", hint);
	cli_fail(cli, &err);
	return EX_NOINPUT;
}
