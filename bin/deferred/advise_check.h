/* SPDX-License-Identifier: MIT */
/* advise_check - `deferred advise --check`: what was promised, beside how long jobs have waited since its lines are at
 * work. */
#ifndef ADVISE_CHECK_H
#define ADVISE_CHECK_H

#include "cmd.h"

#include "program/outlook.h"

/* Of the advice for o->queue. Returns the exit code: 0, the promise is kept; CLI_NOT_DONE, it is not, or nothing can be
 * said. */
int advise_check(struct outlook *o, struct cli *cli);

#endif
