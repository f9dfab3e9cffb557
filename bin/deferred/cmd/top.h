/* SPDX-License-Identifier: MIT */
/*
 * top - what `deferred top` shows: cmd_top.c reads it and has the terminal, top_frame.c makes a screen of it, and knows
 * of no terminal.
 */
#ifndef TOP_H
#define TOP_H

#include "base/cause.h"
#include "port/pg.h"
#include "store/why.h"

#include <stdio.h>

#define TOP_JOBS_MAX 200 /* running jobs that are read */

/* X(name, word): what functions are sorted by. */
#define TOP_SORTS(X) \
	X(ENDED, "ended") \
	X(RUN, "run time") \
	X(CPU, "CPU") \
	X(FAILED, "failures")

enum top_sort {
#define X(name, word) TOP_BY_##name,
	TOP_SORTS(X)
#undef X
		TOP_SORTS_LEN
};

struct top {
	const char *queue; /* NULL: all */
	enum top_sort sort;
	struct store_why why;
	struct store_why_missed missed;
	struct cause causes[CAUSES_MAX];
	size_t causes_len;
	struct pg_result *recent, *arrivals, *running;
};

/* Put the queues in the order in which they are shown, the latest one first. */
void top_sort_queues(struct top *top);

/*
 * Print a frame of at most this many lines and columns; 0: no maximum. With terminal, headers are bold and the rest of
 * a line is cleared. Without it there is no escape.
 */
void top_frame(const struct top *top, FILE *out, int rows, int cols, bool terminal);

#endif
