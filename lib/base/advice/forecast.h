/* SPDX-License-Identifier: MIT */
/*
 * forecast - how long jobs would wait: arrivals and run times are replayed through the rule by which workers take jobs.
 * No clock, no I/O; the same seed gives the same answer. Not modelled: limits, priorities, weights of queues, and keys.
 */
#ifndef FORECAST_H
#define FORECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FORECAST_RUNNERS 64 /* of one line, at most */
#define FORECAST_LINES 64   /* at most */
#define FORECAST_WINDOW 100 /* a job is drawn at random among as many that came first, as with --window */
#define FORECAST_MAX_US INT64_C(1000000000000000) /* each time is from 0 to this, 31 years, so that sums stay whole */

struct forecast_job {
	int64_t ready_us;
	int64_t run_us;
	int64_t wait_us; /* result; -1: not begun by the end */
	int group;       /* its queue, by a number of the caller */
};

struct forecast_line {
	int64_t first_us;    /* its first tick */
	int64_t interval_us; /* 0: a service, which takes at once */
	int64_t cnt;         /* attempts of a run; 0: until nothing is ready */
	int runners;         /* 1 to FORECAST_RUNNERS */
	bool replace;        /* a start ends the copy before it, and does not leave it alone */
	/* ascending: its ticks, where they do not come at intervals; interval_us is then about what lies between two.
	 * NULL: at intervals */
	const int64_t *ticks_us;
	size_t ticks_len;
	const bool *serves; /* of each group below groups: it takes jobs of it. NULL: of all */
};

struct forecast_rule {
	int64_t start_us;   /* from a tick to the first claim */
	int64_t between_us; /* between two attempts of a runner */
	int64_t end_us;     /* nothing begins at or after this */
	uint64_t seed;
	int64_t grace_us; /* what a copy that is replaced has to finish */
	int groups;       /* the number of groups, where a line does not serve all queues; else 0 */
};

struct forecast_result {
	int64_t runs;    /* starts that made an attempt */
	int64_t skipped; /* starts that found the copy before at work */
	int64_t most;    /* attempts of one run */
	int64_t lost;    /* attempts that a start cut off */
	int64_t left;    /* jobs that were not begun */
	int64_t busy_us; /* run times of those that were */
};

/* Fill wait_us of each job, from ready to its first attempt; jobs by ready_us. result may be NULL. Returns 0, -1: out
 * of memory, -2: a line or a job is not as above says. */
int forecast_run(const struct forecast_rule *rule, const struct forecast_line *lines, size_t lines_len,
		 struct forecast_job *jobs, size_t jobs_len, struct forecast_result *result);

#endif
