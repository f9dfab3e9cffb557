/* SPDX-License-Identifier: MIT */
/* Builds of plugins that run worse than the ones before them. */
#include "program/doctor.h"

#include "program/builds.h"

#include <stdlib.h>

#define LOOKED_AT 400
#define TOLD_MAX 20

static void slower(struct doctor *d, const struct build *b, const struct build *before,
		   const struct histogram_ratio *ratio)
{
	doctor_warn(d, "function %s takes %.2f times as long with %s as with %s, beyond chance at least %.2f times",
		    b->fn, ratio->times, b->plugin, before->plugin, ratio->low);
	doctor_why(d, "half of its attempts took up to %.1f ms, %.1f ms before",
		   (double)histogram_quantile_us(&b->run, 0.5) / 1000,
		   (double)histogram_quantile_us(&before->run, 0.5) / 1000);
	doctor_do(d, "look at what changed, or install the build before it again: deferred functions");
}

static void crashes_more(struct doctor *d, const struct build *b, const struct build *before,
			 const struct proportion_difference *more)
{
	doctor_warn(d,
		    "function %s crashes more often with %s than with %s: %.2f %% of attempts more, beyond chance at "
		    "least %.2f %%",
		    b->fn, b->plugin, before->plugin, 100 * more->more, 100 * more->low);
	doctor_why(d, "%lld of %lld attempts crashed, %lld of %lld before", (long long)b->crashed,
		   (long long)b->attempts, (long long)before->crashed, (long long)before->attempts);
	doctor_do(d, "install the build before it again; where it crashed: deferred ls --fn %s, deferred show ID",
		  b->fn);
}

static void hold_against_each_other(struct doctor *d, const struct builds *builds)
{
	size_t told = 0;

	for (size_t i = 0; i < builds->n && told < TOLD_MAX; i++) {
		const struct build *b = &builds->list[i], *before = builds_before(builds, b);
		struct proportion_difference more;
		struct histogram_ratio ratio;

		if (!builds_newest(builds, b))
			continue;
		if (builds_slowdown(builds, b, &ratio) && ratio.low > BUILDS_SLOWER && ++told)
			slower(d, b, before, &ratio);
		if (builds_crashes(builds, b, &more) && more.low > 0 && ++told)
			crashes_more(d, b, before, &more);
	}
}

void doctor_builds(struct doctor *d)
{
	struct store_figures figures = { 0 };
	struct deferred_error err = { 0 };
	struct builds builds = { .max = LOOKED_AT };
	int rc = store_figures_builds(d->pg, &figures, &err);

	if (rc == 0 && !(builds.list = calloc(builds.max, sizeof(*builds.list))))
		rc = error_set(&err, DEFERRED_ENOMEM, "builds", "out of memory");
	if (doctor_answered(d, rc, &err)) {
		builds_gather(&builds, &figures);
		hold_against_each_other(d, &builds);
	}
	if (builds.more)
		doctor_note(d, "the first %d builds were looked at", LOOKED_AT);
	free(builds.list);
	store_figures_clear(&figures);
}
