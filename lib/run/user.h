/* SPDX-License-Identifier: MIT */
/* runner_user - the user of functions. A producer chooses what they do, so they run as root only if an administrator
 * allows it. */
#ifndef RUNNER_USER_H
#define RUNNER_USER_H

#include "run/runner_setup.h"

/*
 * Fill in switch_user and what belongs to it, by the settings `user` and `allow_root` where this process is root, else
 * nothing.
 *
 * Returns 0, or DEFERRED_ECONFIG: there is no such user, or functions would run as root without allow_root; the hint
 * has the line to add.
 */
int runner_user_find(struct runner_setup *setup, const struct config *config, struct deferred_error *err);

#endif
