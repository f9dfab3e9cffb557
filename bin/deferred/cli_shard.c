/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "base/shard_route.h"
#include "rows/admin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int cli_config(struct cli *cli)
{
	struct deferred_error err = { 0 };

	if (cli->config)
		return 0;
	if (config_load(&cli->config, cli->config_path, &err) == 0)
		return 0;
	return cli_fail(cli, &err);
}

const char *cli_conninfo(const struct cli *cli)
{
	return cli->conninfo ? cli->conninfo : config_text(cli->config, "database.conninfo");
}

int cli_use_shard(struct cli *cli, const char *name)
{
	struct deferred_error err = { 0 };

	if (config_override(cli->config, "database.shard", name, "--shard", &err) < 0 ||
	    config_use_shard(cli->config, &err) < 0)
		return cli_fail(cli, &err);
	return 0;
}

/* ---- all of them, one after the other ------------------------------------------------------------ */

/* The output of the child, as far as memory allows, ended by a NUL. The caller frees it. */
static char *answer_of(int fd, size_t *len)
{
	size_t size = 0;
	char *text = NULL;
	ssize_t n = 1;

	for (*len = 0; n > 0 || (n < 0 && errno == EINTR); *len += n > 0 ? (size_t)n : 0) {
		if (*len == size) {
			char *more = realloc(text, (size = size ? 2 * size : 65536) + 1);

			if (!more)
				break;
			text = more;
		}
		n = read(fd, text + *len, size - *len);
	}
	if (text)
		text[*len] = '\0';
	return text;
}

pid_t cli_start_child(const char *shard, int *fd)
{
	int fds[2];
	pid_t pid;

	fflush(NULL);
	if (pipe(fds) < 0 || (pid = fork()) < 0) {
		cli_say("free memory on this host, or close processes", "cannot ask shard '%s': %s", shard,
			strerror(errno));
		return -1;
	}
	*fd = fds[pid == 0];
	close(fds[pid != 0]);
	return pid;
}

int cli_end_child(pid_t pid, int fd, char **text, size_t *len)
{
	int status = 0;

	*text = answer_of(fd, len);
	close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EX_OSERR;
}

static void cli_shard_tell(const struct cli *cli, const char *name, bool first, const char *text, size_t len)
{
	if (!cli->json) {
		printf("%s# shard %s\n%.*s", first ? "" : "\n", name, (int)len, text ? text : "");
		return;
	}
	while (len > 0 && text[len - 1] == '\n')
		len--;
	printf("%s\"%s\": %.*s", first ? "{" : ",\n ", name, (int)(len ? len : 4), len ? text : "null");
}

/* Returns in the children, with 0 or an exit code; and in the parent where there can be none. */
static int in_each(struct cli *cli, const struct config_shard *shards, size_t len)
{
	int worst = EX_OK;

	for (size_t i = 0; i < len; i++) {
		int fd, exit_code;
		pid_t pid = cli_start_child(shards[i].name, &fd);
		char *text;
		size_t n;

		if (pid < 0)
			return EX_OSERR;
		if (pid == 0) {
			if (dup2(fd, STDOUT_FILENO) < 0)
				return EX_OSERR;
			close(fd);
			return cli_use_shard(cli, shards[i].name);
		}
		exit_code = cli_end_child(pid, fd, &text, &n);
		cli_shard_tell(cli, shards[i].name, i == 0, text, n);
		free(text);
		/* `status --check` has an exit code for what it prints. */
		if (exit_code != EX_OK && n == 0)
			cli_say("ask it alone with --shard", "shard '%s' did not answer as expected", shards[i].name);
		worst = exit_code > worst ? exit_code : worst;
	}
	if (cli->json)
		puts("}");
	if (fflush(stdout) != 0 || ferror(stdout)) {
		cli_say(CLI_UNWRITTEN_HINT, "cannot write the answer: %s", strerror(errno));
		exit(EX_IOERR);
	}
	exit(worst);
}

/* ---- which one ---------------------------------------------------------------------------------- */

int cli_choose_shard(struct cli *cli)
{
	size_t len;
	const struct config_shard *shards = config_shards(cli->config, &len);

	if (cli->conninfo && (cli->shard || cli->all_shards))
		return cli_misuse(cli, "leave one of the two out", "option '--db' contradicts option '%s'",
				  cli->shard ? "--shard" : "--all-shards");
	if (cli->shard && cli->all_shards)
		return cli_misuse(cli, "leave one of the two out",
				  "option '--shard' contradicts option '--all-shards'");
	if (cli->shard)
		return cli_use_shard(cli, cli->shard);
	if (cli->all_shards && len == 0)
		return cli_misuse(cli, "leave --all-shards out, or add shard sections to the config file",
				  "option '--all-shards' needs shards, and the config file has none");
	if (cli->all_shards && cli->cmd->shards == SHARDS_ONE)
		return cli_misuse(cli, "name the shard with --shard NAME", "command '%s' works on one shard only",
				  cli->cmd->name);
	if (cli->all_shards || (!cli->conninfo && config_by_shards(cli->config) && cli->cmd->shards == SHARDS_ALL))
		return in_each(cli, shards, len);
	if (!cli->conninfo && config_by_shards(cli->config))
		return cli_misuse(cli,
				  cli->cmd->shards == SHARDS_ONE
					  ? "name the shard with --shard NAME"
					  : "name the shard with --shard NAME, or ask all with --all-shards",
				  "the shard is missing: the config file has %zu", len);
	return 0;
}

int cli_shard_of(struct cli *cli, int64_t id)
{
	int number = shard_route_of(id), rc = cli_config(cli);
	const struct config_shard *shards;
	size_t len;

	if (rc != 0 || cli->conninfo || cli->all_shards || !config_by_shards(cli->config))
		return rc;
	shards = config_shards(cli->config, &len);
	for (size_t i = 0; i < len; i++) {
		if (shards[i].number != number)
			continue;
		if (cli->shard && strcmp(cli->shard, shards[i].name) != 0)
			return cli_misuse(cli, "use one command for each shard",
					  "job %" PRId64 " is in shard '%s', not in '%.64s'", id, shards[i].name,
					  cli->shard);
		cli->shard = shards[i].name;
		return 0;
	}
	return cli_misuse(cli, "compare the shard sections of the config file: deferred shard ls",
			  "job %" PRId64 " is in none of the %zu shards of the config file", id, len);
}

int cli_check_shard(struct cli *cli)
{
	const struct config_shard *meant = cli->conninfo ? NULL : config_shard(cli->config);
	struct deferred_error err = { 0 };
	struct shard_look_row found;

	if (!meant)
		return 0;
	if (shard_look_one(cli->pg, CLI_SHARD_READY_MAX, &found, &err) < 0)
		return cli_fail(cli, &err);
	if (found.shard == meant->number)
		return 0;
	if (found.shard)
		error_set(&err, DEFERRED_ECONFIG, "shard",
			  "shard '%s' is number %d in the config file, and its database is number %d", meant->name,
			  meant->number, (int)found.shard);
	else
		error_set(&err, DEFERRED_ECONFIG, "shard", "the database of shard '%s' has no number yet", meant->name);
	error_hint(&err, found.shard ? "correct conninfo or number of the section" : "deferred migrate --shard %s",
		   meant->name);
	return cli_fail(cli, &err);
}
