/* SPDX-License-Identifier: MIT */
#include "pool_members.h"

#include <stdio.h>

size_t pool_load(const struct pool *pool)
{
	size_t n = pool->pending_len;

	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			n += runner_load(pool->member[i].runner);
	return n;
}

size_t pool_running(const struct pool *pool)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			n += pool_is_running(pool->member[i].runner);
	return n;
}

size_t pool_unstarted(const struct pool *pool)
{
	size_t n = pool_load(pool);

	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			n -= runner_running_jobs(pool->member[i].runner);
	return n;
}

size_t pool_busy(const struct pool *pool)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places; i++) {
		const struct runner *r = pool->member[i].runner;

		n += r && !pool->member[i].retired && (!runner_ready(r) || runner_load(r) > 0);
	}
	return pool->pending_len > pool->waiting && n < pool->runners_max && pool_has_free(pool) ? pool->runners_max
												 : n;
}

bool pool_starting(const struct pool *pool)
{
	bool starting = pool->pending_len > 0 && pool->alive < pool->runners_max;

	for (size_t i = 0; i < pool->places; i++)
		starting |= pool->member[i].runner && !pool->member[i].retired && !runner_ready(pool->member[i].runner);
	return starting;
}

/* Time on a processor and time ready to run, as the scheduler counts them; 0: it does not. */
static uint64_t cpu_ns(pid_t pid)
{
	unsigned long long used = 0, waited = 0;
	char path[40];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu", &used, &waited) != 2)
		used = waited = 0;
	fclose(f);
	return used + waited;
}

double pool_cpu_demand(struct pool *pool, uint64_t now)
{
	uint64_t wanted = 0, time = 0;

	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];
		uint64_t cpu;

		/* Loading plugins does not count. */
		if (!m->runner || !runner_ready(m->runner) || runner_load(m->runner) == 0) {
			m->cpu_at_ns = 0;
			continue;
		}
		cpu = cpu_ns(runner_pid(m->runner));
		if (m->cpu_at_ns && cpu >= m->cpu_ns) {
			wanted += cpu - m->cpu_ns;
			time += now - m->cpu_at_ns;
		}
		m->cpu_ns = cpu;
		m->cpu_at_ns = cpu ? now : 0;
	}
	return time > 0 ? (double)wanted / (double)time : -1;
}

size_t pool_per_call(const struct pool *pool)
{
	return pool->batch > 1 ? pool->batch : 1;
}

double pool_run_us(const struct pool *pool, uint64_t now)
{
	double us = pool->run_us;

	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;
		uint64_t started;
		int64_t timeout;
		size_t jobs = r ? runner_running_jobs(r) : 0;
		double each;

		if (jobs == 0 || !runner_running(r, &started, &timeout) || now <= started)
			continue;
		each = (double)(now - started) / 1000 / (double)jobs;
		us = each > us ? each : us;
	}
	return us;
}
