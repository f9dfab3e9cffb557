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

#define TOP_JOBS_MAX 200 /* jobs looked at, of those that run, and of the dead */

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

/* Among what one is chosen. */
enum top_panel { TOP_RUNNING, TOP_DEAD, TOP_QUEUES, TOP_PANELS_LEN };

struct top {
	const char *queue; /* NULL: all */
	enum top_sort sort;
	struct store_why why;
	struct store_why_missed missed;
	struct cause causes[CAUSES_MAX];
	size_t causes_len;
	struct pg_result *recent, *arrivals, *running, *dead; /* dead: while it is chosen among these */
	enum top_panel panel;
	/* The job that somebody has chosen, 0: none; or the queue, "": none. */
	int64_t chosen;
	char chosen_queue[128];
	bool of_chosen; /* what is said is why that one is not done */
	struct cause job_causes[CAUSES_MAX];
	size_t job_causes_len;
	char said[256]; /* of what was done, or is asked; "": nothing, and keys are told */
};

/* Rows of the panel; and the one that is chosen: how many there are, where it is not among them. */
size_t top_rows(const struct top *top);
size_t top_chosen(const struct top *top);

/* Put the queues in the order in which they are shown, the latest one first. */
void top_sort_queues(struct top *top);

/*
 * Print a frame: at most so many lines of so many columns, 0: as many as there are. terminal: with what makes headers
 * bold and what clears the rest of a line; else not a single escape.
 */
void top_frame(const struct top *top, FILE *out, int rows, int cols, bool terminal);

#endif
