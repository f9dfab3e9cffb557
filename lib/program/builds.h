/* SPDX-License-Identifier: MIT */
/*
 * builds - how functions ran in each build of their plugins, and each build against the one before it: is it slower,
 * does it crash more?
 *
 *     store_figures_builds(pg, &figures, err);
 *     struct builds builds = { .list = list, .max = sizeof(list) / sizeof(list[0]) };
 *     builds_gather(&builds, &figures);
 *     for (size_t i = 0; i < builds.n; i++)
 *             if (builds_slowdown(&builds, &builds.list[i], &ratio) && ratio.low > BUILDS_SLOWER) ...
 */
#ifndef BUILDS_H
#define BUILDS_H

#include "base/advice/proportion.h"
#include "store/figures.h"

/* a build is called slower if the lower bound of the ratio is above that */
#define BUILDS_SLOWER 1.15

/* Sums over queues and hours. */
struct build {
	const char *fn, *plugin; /* plugin: name, version, build; "": nobody ran it, or not known */
	int series;
	int64_t attempts, failed, crashed, timeout, dead, cpu_us, max_rss_kb, first_s, last_s;
	struct histogram run;
};

struct builds {
	struct build *list;
	size_t n, max;
	bool more; /* than there is room for */
};

/* Add up rows by build, which come in the order of time. The texts stay where they are, in the figures. */
void builds_gather(struct builds *builds, const struct store_figures *figures);

/* The last earlier build that ran often enough to be compared with; NULL: there is none. */
const struct build *builds_before(const struct builds *builds, const struct build *build);

/* False: there is no earlier build to compare with, or this one ran too seldom. */
bool builds_slowdown(const struct builds *builds, const struct build *build, struct histogram_ratio *ratio);
bool builds_crashes(const struct builds *builds, const struct build *build, struct proportion_difference *difference);

/* The newest build of its function, and not one that an older one has taken the place of again. */
bool builds_newest(const struct builds *builds, const struct build *build);

#endif
