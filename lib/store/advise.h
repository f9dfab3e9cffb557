/* SPDX-License-Identifier: MIT */
/*
 * store_advise - what lay in the log, for a replay (base/advice/advice.h). It reads backwards from a time until there
 * are rows enough, by index, and takes no lock that anybody waits for.
 */
#ifndef STORE_ADVISE_H
#define STORE_ADVISE_H

#include "base/advice/advice.h"
#include "base/error.h"
#include "port/pg.h"
#include "rows/doctor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_ADVISE_QUEUES 1000 /* told apart */

struct store_advise_bounds {
	int64_t rows;     /* of the log that are read */
	int statement_ms; /* a statement takes no longer */
	int all_ms;       /* after that no more are read; 0: any time */
};

/* The run times of a function change by this factor. */
struct store_advise_scale {
	const char *fn;
	double factor;
	int64_t attempts; /* result: of it, in all that was read */
};

struct store_past {
	struct advice_history history; /* group: number of the queue; wait_us: as it was */
	char *queue[STORE_ADVISE_QUEUES];
	int queues;
	int64_t from_us, to_us; /* it reaches back to there, from there; since 2000 */
	int64_t read;           /* rows of the log */
	int64_t first;          /* first attempts among those of the history */
	int64_t cut;            /* attempts that were cut off and came again: not part of it */
	int64_t run_us;         /* mean */
	bool full;              /* the bounds cut it off */
};

/*
 * Attempts that ended in [from_us, to_us), the latest ones of the log that the bounds allow, and of a time that is
 * whole.
 *
 * past    all 0, or what was read for another time: then its names of queues stay
 * scales  scales_len of them; NULL: none
 *
 * Needs deferred_viewer, and no transaction open. Returns 0 or a DEFERRED_E...; the caller's to clear in either case.
 */
int store_advise_past(struct pg *pg, const char *queue, int64_t from_us, int64_t to_us,
		      const struct store_advise_bounds *bounds, struct store_advise_scale *scales, size_t scales_len,
		      struct store_past *past, struct deferred_error *err);
void store_past_clear(struct store_past *past);

#endif
