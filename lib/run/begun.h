/* SPDX-License-Identifier: MIT */
/*
 * begun - a file that says which jobs a runner was given, for the next start after this process was killed.
 *
 * A job with a lease of its own counts as begun when its worker dies, because the database cannot tell. With one
 * attempt it would be dead then, though it may only have been claimed. So its receipt is written here before an idle
 * runner gets it, which begins it within some 40 us. A worker that is killed in between leaves a job that counts as
 * begun. To exclude that, the runner would have to answer before it begins, a round trip for each job.
 *
 * The kernel keeps this memory when the process is killed. After a reboot the next start is another instance, and does
 * not ask.
 */
#ifndef BEGUN_H
#define BEGUN_H

#include "base/ids.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define BEGUN_MAX 256

struct begun_file {
	int64_t worker; /* whose receipts they are, in the database that is called so */
	uint64_t database;
	int64_t receipt[BEGUN_MAX]; /* 0: free */
};

struct begun {
	struct begun_file *file; /* NULL: there is none, and nothing is marked */
	size_t used;             /* slots up to here may be in use */
	char path[PATH_MAX];
};

/* Read what the previous run left; false: nothing valid. The file is in the folder of pidfile. database: conninfo. */
bool begun_read(struct begun_file *left, const char *pidfile, const char *database);

/* Without a file the worker goes on: then a job that it has claimed counts as begun. */
void begun_open(struct begun *b, const char *pidfile, const char *database, int64_t worker);
bool begun_mark(struct begun *b, int64_t receipt);              /* false: there is no room */
void begun_drop(struct begun *b, int64_t receipt);              /* it has ended, and may be run again */
void begun_keep(struct begun *b, const struct store_ids *held); /* the others have been recorded */
void begun_close(struct begun *b, bool remove);                 /* remove: nothing is in hand any more */

#endif
