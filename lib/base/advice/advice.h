/* SPDX-License-Identifier: MIT */
/*
 * advice - the smallest crontab lines, or the smallest service, with which a share of the jobs begins within a time. It
 * replays the recorded past (base/advice/forecast.h) and random rearrangements of it. No clock, no I/O; the same seed
 * gives the same answer.
 *
 * Small is first: few runners in all, then few starts, then few attempts a run, as far as that costs nothing. In each
 * history, each group that has ADVICE_GROUP_MIN jobs must keep the promise by itself, and so must all together.
 */
#ifndef ADVICE_H
#define ADVICE_H

#include "forecast.h"

#include <stdbool.h>

#define ADVICE_NEVER INT64_MAX /* of a wait: some that count had not begun by the end */
#define ADVICE_ROUNDS 20       /* histories made up; the bound is the second worst of them */
#define ADVICE_GROUP_MIN 100
#define ADVICE_LOAD_MAX 0.8 /* of what can be served, on average */

struct advice_history {
	struct forecast_job *jobs; /* by ready_us, counted from begin_us on */
	size_t len;
	int64_t begin_us; /* a full hour, since 2000 */
};

struct advice_setting {
	int64_t interval_us; /* 0: a service */
	int64_t cnt;         /* of a run; 0: until nothing is ready */
	int runners, lines;  /* the number of lines, and the runners of each */
};

struct advice_wanted {
	double share; /* of the jobs, 0 to 1 */
	int64_t within_us;
	double headroom;              /* the bound is for the arrivals times this factor */
	int runners_max;              /* of all lines, 1 to FORECAST_RUNNERS */
	bool service;                 /* nothing else */
	int64_t start_us, between_us; /* as in forecast_rule */
	double rate, peak_rate;       /* attempts a second that arrive, on average and at the peak */
	int64_t run_us;               /* mean */
	uint64_t seed;
	bool (*go_on)(void *data); /* asked before each replay; false: give up. NULL: to the end */
	void *go_on_data;
};

enum advice_answer { ADVICE_FOUND, ADVICE_TOO_MUCH, ADVICE_TOO_LATE };

struct advice {
	/* TOO_MUCH: no allowed setting serves what arrives. TOO_LATE: with none the share begins in time. */
	enum advice_answer answer;
	struct advice_setting setting; /* TOO_LATE: this comes nearest */
	int64_t predicted_us;          /* the share waited no longer when what was is replayed */
	int64_t bound_us;              /* nor in all but one of the histories made up */
	struct forecast_result result; /* of all histories */
	int replays;
};

/* The wait that a share of the group had at most; group -1: all. ADVICE_NEVER; -1: there is none, or no memory. */
int64_t advice_quantile_us(const struct forecast_job *jobs, size_t len, int group, double share);

/* The longest wait of all groups with at least ADVICE_GROUP_MIN jobs, and of all jobs together. -1: there are no jobs,
 * or no memory. */
int64_t advice_worst_us(const struct advice_history *history, double share);

/* Attempts a second that can be served with run times that are all alike. */
double advice_served(const struct advice_setting *setting, int64_t run_us, int64_t start_us, int64_t between_us);

/* One replay. Fills wait_us of the jobs. Returns as forecast_run(). */
int advice_replay(const struct advice_history *history, const struct advice_setting *setting,
		  const struct advice_wanted *wanted, struct forecast_result *result);

/* A history with the arrivals times factor: jobs are doubled or left out at random. The caller frees the jobs of copy.
 * Returns 0, -1: out of memory. */
int advice_scale(const struct advice_history *history, double factor, uint64_t seed, struct advice_history *copy);

/* A random rearrangement of a history: each hour is replaced by one of the same time of day and kind of day. Histories
 * under three days take an hour nearby. The result is as that of advice_scale(). */
int advice_resample(const struct advice_history *history, double factor, uint64_t seed, struct advice_history *copy);

/* Returns 0; -1: out of memory, -2: histories or what is wanted are not as above says, -3: it was given up. */
int advice_seek(const struct advice_wanted *wanted, const struct advice_history *histories, size_t n,
		struct advice *advice);

/* For a setting as it is: predicted, bound and result; answer is FOUND if the share begins within the time. Returns as
 * advice_seek(). */
int advice_judge(const struct advice_wanted *wanted, const struct advice_setting *setting,
		 const struct advice_history *histories, size_t n, struct advice *advice);

#endif
