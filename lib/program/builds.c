/* SPDX-License-Identifier: MIT */
#include "program/builds.h"

#include "base/job.h"

#include <string.h>

static struct build *build_of(struct builds *builds, const struct store_figure *f)
{
	for (size_t i = 0; i < builds->n; i++)
		if (strcmp(builds->list[i].plugin, f->plugin) == 0 && strcmp(builds->list[i].fn, f->fn) == 0)
			return &builds->list[i];
	builds->more |= builds->n == builds->max;
	if (builds->n == builds->max)
		return NULL;
	builds->list[builds->n] =
		(struct build){ .fn = f->fn, .plugin = f->plugin, .series = f->series, .first_s = f->at_s };
	return &builds->list[builds->n++];
}

void builds_gather(struct builds *builds, const struct store_figures *figures)
{
	for (size_t i = 0; i < figures->n; i++) {
		const struct store_figure *f = &figures->row[i];
		struct build *b = f->fn && f->plugin && f->attempts > 0 ? build_of(builds, f) : NULL;

		if (!b)
			continue;
		b->series = f->series < b->series ? f->series : b->series;
		b->attempts += f->attempts;
		b->failed += f->outcome[JOB_FAILED];
		b->crashed += f->outcome[JOB_CRASHED];
		b->timeout += f->outcome[JOB_TIMEOUT];
		b->dead += f->dead;
		b->cpu_us = store_figures_add_us(b->cpu_us, f->cpu_us);
		b->max_rss_kb = f->max_rss_kb > b->max_rss_kb ? f->max_rss_kb : b->max_rss_kb;
		b->last_s = f->at_s;
		histogram_add(&b->run, &f->run);
	}
}

/* Builds are in the order of the hour in which they were seen first. Within one hour the number decides, because one
 * fold of many hours numbers builds as they come. */
static bool came_before(const struct build *a, const struct build *b)
{
	return a->first_s != b->first_s ? a->first_s < b->first_s : a->series < b->series;
}

static bool of_same_function(const struct build *a, const struct build *b)
{
	return *a->plugin && *b->plugin && strcmp(a->fn, b->fn) == 0;
}

const struct build *builds_before(const struct builds *builds, const struct build *build)
{
	const struct build *before = NULL;

	for (size_t i = 0; i < builds->n; i++) {
		const struct build *other = &builds->list[i];

		if (of_same_function(other, build) && came_before(other, build) &&
		    histogram_count(&other->run) >= HISTOGRAM_RATIO_LEAST && (!before || came_before(before, other)))
			before = other;
	}
	return before;
}

bool builds_slowdown(const struct builds *builds, const struct build *build, struct histogram_ratio *ratio)
{
	const struct build *before = builds_before(builds, build);

	return before && histogram_ratio(&build->run, &before->run, ratio);
}

bool builds_crashes(const struct builds *builds, const struct build *build, struct proportion_difference *difference)
{
	const struct build *before = builds_before(builds, build);

	return before && proportion_difference((struct proportion){ build->attempts, build->crashed },
					       (struct proportion){ before->attempts, before->crashed }, difference);
}

bool builds_newest(const struct builds *builds, const struct build *build)
{
	for (size_t i = 0; i < builds->n; i++) {
		const struct build *other = &builds->list[i];

		if (of_same_function(other, build) && (came_before(build, other) || other->last_s > build->last_s))
			return false;
	}
	return *build->plugin;
}
