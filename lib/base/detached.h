/* SPDX-License-Identifier: MIT */
/* detached - a thread for a call that may take long and that nobody waits for. Not fork(): the caller may be any
 * program. */
#ifndef DETACHED_H
#define DETACHED_H

#include <stdbool.h>

/* The thread leaves all signals of the program to others. False: there is no thread, and f() does not run. */
bool detached_start(void *(*f)(void *arg), void *arg);

#endif
