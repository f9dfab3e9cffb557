/* SPDX-License-Identifier: MIT */
/*
 * cmd_schedule - `deferred schedule`: a group of commands about recurring jobs. Each is given its own arguments, its
 * name in the place of the program, and returns the exit code.
 */
#ifndef CMD_SCHEDULE_H
#define CMD_SCHEDULE_H

#include "cmd.h"

int schedule_set(struct cli *cli, int argc, char **argv);
/* As cli_fail(). zone: the time zone was given, and is not that of the setting. */
int schedule_fail(const struct cli *cli, bool zone, struct deferred_error *err);
void schedule_print_next(const struct pg_result *res); /* rows of admin_schedule_next.sql */
int schedule_sync(struct cli *cli, int argc, char **argv);

#endif
