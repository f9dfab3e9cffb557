/* SPDX-License-Identifier: MIT */
/*
 * cmd_rule - `deferred rule`: a group of commands about stored queries. Each is given its own arguments, its name in
 * the place of the program, and returns the exit code.
 */
#ifndef CMD_RULE_H
#define CMD_RULE_H

#include "cmd.h"

int rule_run(struct cli *cli, int argc, char **argv);

/* Connect as these commands need it. Returns 0 or the exit code. */
int rule_connect(struct cli *cli);

/* As cli_fail(); a rule that is being run is a reason to try again later. */
int rule_fail(const struct cli *cli, const struct deferred_error *err);

#endif
