/* SPDX-License-Identifier: MIT */
#include "run/pool.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text/plural.h"
#include "run/orphan.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PORTION_US 5000                /* a runner is given so much work at a time */
#define LOAD_LIMIT_NS (10 * NS_PER_S)  /* plugins must have been loaded by then */
#define LEAVE_LIMIT_NS (10 * NS_PER_S) /* a retired runner with nothing to do must have left by then */
#define DIE_TELL_NS NS_PER_S           /* one that was killed is dead within that, or it is told */
#define DIE_LIMIT_NS (5 * NS_PER_S)    /* one that was killed must be dead by then, or is given up */
#define HELD_MAX (16u << 20)           /* bytes of results not yet recorded from which on no more of them are read */
#define SWEEP_NS NS_PER_S
#define PASS_FIRST_NS NS_PER_S /* a plugin that a runner died of is loaded again after that, then after twice as long */
/* the same of one that hung, for each try may keep a runner's place for LOAD_LIMIT_NS */
#define PASS_HUNG_NS (60 * NS_PER_S)
#define PASS_MOST_NS (300 * NS_PER_S)
#define FAILED_STARTS_MAX 5
#define CRASH_NS (60 * NS_PER_S) /* so often a crash of one function is told with symbols */
#define SHORT_NS (15 * NS_PER_S) /* no further runner is tried so long after one that could not be started */

static void take_settings(struct pool *pool, const struct runner_setup *setup)
{
	pool->setup = *setup;
	pool->runners_max = (size_t)config_int(setup->config, "runners");
	pool->short_ns = 0;
	pool->default_timeout_ms = config_int(setup->config, "timeout");
	pool->kill_after_ms = config_int(setup->config, "kill_after");
}

int pool_init(struct pool *pool, const struct runner_setup *setup, struct deferred_error *err)
{
	memset(pool, 0, sizeof(*pool));
	take_settings(pool, setup);
	pool->places = pool->runners_max;
	pool->pending_tail = &pool->pending;
	pool->ended_tail = &pool->ended;
	pool->run_us = -1;
	pool->member = calloc(pool->places, sizeof(*pool->member));
	if (pool->member)
		return 0;
	pool->runners_max = pool->places = 0;
	return error_set(err, DEFERRED_ENOMEM, "pool", "out of memory");
}

/* ---- functions -------------------------------------------------------------------------------- */

static int compare_functions(const void *a, const void *b)
{
	return strcmp(((const struct runner_function *)a)->name, ((const struct runner_function *)b)->name);
}

static struct runner_function *find_function(struct runner_function *f, size_t n, const char *name)
{
	struct runner_function key = { .name = (char *)name };

	return n == 0 ? NULL : bsearch(&key, f, n, sizeof(key), compare_functions);
}

static bool same_functions(const struct pool *pool, const struct runner_function *f, size_t n)
{
	if (n != pool->functions_len)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(f[i].name, pool->functions[i].name) != 0 ||
		    strcmp(f[i].plugin, pool->functions[i].plugin) != 0)
			return false;
	return true;
}

static void free_functions(struct runner_function *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(f[i].name);
		free(f[i].plugin);
	}
	free(f);
}

#define CLASHES_TOLD 5

/* Said once, not by each runner; a copy of a plugin makes all its functions clash. */
static void tell_clash(const struct pool *pool, const struct runner_function *f, size_t n)
{
	size_t news = 0;

	for (size_t i = 0; i < n; i++)
		if (!find_function(pool->clashes, pool->clashes_len, f[i].name) && ++news <= CLASHES_TOLD)
			log_line(LOG_L_WARNING, "%s: refused; the other functions run", f[i].plugin);
	if (news > CLASHES_TOLD)
		log_line(LOG_L_WARNING, "and %zu more functions like these", news - CLASHES_TOLD);
}

/* Functions that were here, and are not while a plugin is passed over: they are refused, so that nobody is told to
 * install it. */
static void add_missing(const struct pool *pool, struct runner_function **f, size_t *n)
{
	const struct runner_function *const before[] = { pool->functions, pool->clashes };
	const size_t len[] = { pool->functions_len, pool->clashes_len };
	struct runner_function *all = *f;
	size_t known = *n;

	if (pool->setup.passed_over_len == 0)
		return;
	all = realloc(all, (known + len[0] + len[1] + 1) * sizeof(*all));
	if (!all)
		return;
	*f = all;
	for (size_t b = 0; b < 2; b++)
		for (size_t i = 0; i < len[b]; i++) {
			struct runner_function *add = &all[*n];

			if (find_function(all, known, before[b][i].name))
				continue;
			*add = (struct runner_function){ .name = strdup(before[b][i].name),
							 .clash = true,
							 .max_attempts = -1 };
			if (asprintf(&add->plugin,
				     "function '%s': plugin '%s' is not loaded, for a runner died while loading it",
				     before[b][i].name, pool->setup.passed_over[0].file) < 0)
				add->plugin = NULL;
			if (add->name && add->plugin) {
				++*n;
			} else {
				free(add->name);
				free(add->plugin);
			}
		}
	qsort(all, *n, sizeof(*all), compare_functions);
}

/* Put those that clash aside. Returns how many are left. */
static size_t learn_clashes(struct pool *pool, struct runner_function *f, size_t n)
{
	size_t kept = 0, clashes_len = 0;
	struct runner_function *clashes;

	for (size_t i = 0; i < n; i++)
		clashes_len += f[i].clash;
	clashes = clashes_len ? malloc(clashes_len * sizeof(*clashes)) : NULL;
	clashes_len = 0;
	for (size_t i = 0; i < n; i++) {
		if (!f[i].clash) {
			f[kept++] = f[i];
		} else if (clashes) {
			clashes[clashes_len++] = f[i];
		} else { /* no memory: it is as unknown as can be */
			free(f[i].name);
			free(f[i].plugin);
		}
	}
	tell_clash(pool, clashes, clashes_len);
	free_functions(pool->clashes, pool->clashes_len);
	pool->clashes = clashes;
	pool->clashes_len = clashes_len;
	return kept;
}

/* What a runner that has just become ready has loaded. */
static void learn_functions(struct pool *pool, struct runner *runner)
{
	struct functions_old *old;
	size_t n;
	struct runner_function *f = runner_take_functions(runner, &n);

	if (n > 1)
		qsort(f, n, sizeof(*f), compare_functions);
	add_missing(pool, &f, &n);
	n = learn_clashes(pool, f, n);
	if (pool->functions_known && same_functions(pool, f, n)) {
		free_functions(f, n);
		return;
	}
	old = pool->functions_known ? malloc(sizeof(*old)) : NULL;
	if (old) {
		*old = (struct functions_old){ pool->functions_old, pool->functions, pool->functions_len };
		pool->functions_old = old;
	}
	pool->functions = f;
	pool->functions_len = n;
	pool->functions_known = true;
}

const struct runner_function *pool_function(const struct pool *pool, const char *name)
{
	return find_function(pool->functions, pool->functions_len, name);
}

const char *pool_clash(const struct pool *pool, const char *name)
{
	const struct runner_function *f = find_function(pool->clashes, pool->clashes_len, name);

	return f ? f->plugin : NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------- */

void pool_add(struct pool *pool, struct job *jobs)
{
	while (jobs) {
		struct job *job = jobs;

		jobs = job->next;
		job->next = NULL;
		*pool->pending_tail = job;
		pool->pending_tail = &job->next;
		pool->pending_len++;
	}
}

static struct job *take_pending(struct pool *pool)
{
	struct job *job = pool->pending;

	if (job) {
		pool->pending = job->next;
		if (!pool->pending)
			pool->pending_tail = &pool->pending;
		pool->pending_len--;
		job->next = NULL;
	}
	return job;
}

void pool_add_first(struct pool *pool, struct job *jobs)
{
	struct job *last = jobs;
	size_t n = 1;

	if (!jobs)
		return;
	for (; last->next; last = last->next)
		n++;
	last->next = pool->pending;
	if (!pool->pending)
		pool->pending_tail = &last->next;
	pool->pending = jobs;
	pool->pending_len += n;
}

struct job *pool_take_pending(struct pool *pool)
{
	struct job *list = pool->pending;

	pool->pending = NULL;
	pool->pending_tail = &pool->pending;
	pool->pending_len = 0;
	return list;
}

struct job *pool_recall(struct pool *pool)
{
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			pool_add_first(pool, runner_recall(pool->member[i].runner));
	return pool_take_pending(pool);
}

/* It has been at one job for so long that others should not wait behind it. */
static bool is_stuck(struct runner *runner, uint64_t now)
{
	uint64_t started;
	int64_t timeout;

	return runner_running(runner, &started, &timeout) && now > started + POOL_STUCK_NS;
}

void pool_recall_stuck(struct pool *pool, uint64_t now)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;

		if (r && runner_load(r) > 1 && is_stuck(r, now))
			pool_add_first(pool, runner_recall(r));
	}
}

struct job *pool_take_late(struct pool *pool)
{
	struct job *list = pool->late;

	pool->late = NULL;
	return list;
}

struct job *pool_take_abandoned(struct pool *pool)
{
	struct job *list = pool->abandoned;

	pool->abandoned = NULL;
	return list;
}

struct job *pool_take_unknown(struct pool *pool)
{
	struct job *job = pool->unknown;

	if (job) {
		pool->unknown = job->next;
		job->next = NULL;
	}
	return job;
}

void pool_each_job(const struct pool *pool, void (*f)(void *data, struct job *job), void *data)
{
	for (struct job *job = pool->pending, *next; job; job = next) {
		next = job->next;
		f(data, job);
	}
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			runner_each_job(pool->member[i].runner, f, data);
}

static bool is_running(struct runner *runner)
{
	uint64_t started;
	int64_t timeout;

	return runner_running(runner, &started, &timeout) != NULL;
}

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
			n += is_running(pool->member[i].runner);
	return n;
}

size_t pool_busy(const struct pool *pool)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places; i++) {
		const struct runner *r = pool->member[i].runner;

		n += r && !pool->member[i].retired && (!runner_ready(r) || runner_load(r) > 0);
	}
	return pool->pending_len > 0 && n < pool->runners_max ? pool->runners_max : n;
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

		/* What it needs to load plugins does not count. */
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

size_t pool_unstarted(const struct pool *pool)
{
	return pool_load(pool) - pool_running(pool);
}

double pool_run_us(const struct pool *pool, uint64_t now)
{
	double us = pool->run_us;

	for (size_t i = 0; i < pool->places; i++) {
		uint64_t started;
		int64_t timeout;

		if (pool->member[i].runner && runner_running(pool->member[i].runner, &started, &timeout) &&
		    now > started && (double)(now - started) / 1000 > us)
			us = (double)(now - started) / 1000;
	}
	return us;
}

/* ---- handing out ------------------------------------------------------------------------------ */

/* One could not be started, for want of memory or descriptors perhaps. What runs goes on, and nobody is to claim jobs
 * for runners that will not come; without any the run is over. */
static void no_runner(struct pool *pool, const struct deferred_error *err)
{
	if (pool->alive == 0) {
		if (!pool->fatal.code)
			pool->fatal = *err;
		return;
	}
	if (!pool->short_ns)
		pool->short_of = pool->runners_max;
	if (!pool->short_told)
		log_line(LOG_L_WARNING, "%s: goes on with %zu runner%s for now, not %zu", err->message, pool->alive,
			 plural((int64_t)pool->alive), pool->short_of);
	pool->short_told = true;
	pool->short_ns = clock_ns() + SHORT_NS;
	pool->runners_max = pool->alive;
	pool->failed_starts = 0;
}

static void end_short(struct pool *pool)
{
	pool->short_ns = 0;
	pool->runners_max = pool->short_of;
}

static void spawn(struct pool *pool, struct pool_member *m)
{
	struct deferred_error err = { 0 };

	if (runner_spawn(&m->runner, &pool->setup, &err) < 0) {
		no_runner(pool, &err);
		return;
	}
	m->spawned_ns = clock_ns();
	m->kill_ns = m->killed_ns = m->cancel_ns = 0;
	m->load_failed = m->retired = m->told_alive = false;
	m->idle_since_ns = m->spawned_ns;
	m->cpu_at_ns = 0;
	pool->alive++;
	if (pool->alive == pool->runners_max && !pool->short_ns)
		pool->short_told = false;
}

void pool_warm_up(struct pool *pool)
{
	if (pool->alive == 0 && pool->places > 0)
		spawn(pool, &pool->member[0]);
}

/* It is given nothing more; what it has not begun goes to others. */
static void retire(struct pool *pool, struct pool_member *m)
{
	m->retired = true;
	m->idle_since_ns = clock_ns();
	pool_add_first(pool, runner_recall(m->runner));
	runner_quit(m->runner);
}

/* As many jobs as a runner should have in hand, so that it never waits for us and no job waits long for it. */
static size_t portion(const struct pool *pool)
{
	double n;

	if (pool->run_us < 0)
		return 1;
	n = PORTION_US / (pool->run_us < 1 ? 1 : pool->run_us);
	return n < 1 ? 1 : n > BOARD_SLOTS / 2 ? BOARD_SLOTS / 2 : (size_t)n;
}

static void add_ended(struct pool *pool, struct attempt *a)
{
	a->next = NULL;
	*pool->ended_tail = a;
	pool->ended_tail = &a->next;
}

/* The claim does not know the limit a function sets itself: a job whose attempts were cut off, and not failed, comes
 * here once too often. */
static void end_unrun(struct pool *pool, struct job *job, const char *plugin)
{
	struct attempt *a = calloc(1, sizeof(*a));

	if (!a) {
		job_list_push(&pool->abandoned, job); /* its lease runs out, and it comes here again */
		return;
	}
	a->job = job;
	a->plugin = plugin;
	a->outcome = JOB_FAILED;
	a->dead = true;
	a->retry_after_ms = -1;
	a->exit_code = -1;
	a->started_ns = a->finished_ns = clock_ns();
	attempt_set_error(a, "not run: earlier attempts, interrupted or lost, have used up those the function allows");
	add_ended(pool, a);
}

int64_t pool_limit_ms(const struct pool *pool, const struct job *job)
{
	const struct runner_function *f = pool_function(pool, job->fn);

	if (job->timeout_ms > 0)
		return job->timeout_ms;
	return f && f->timeout_ms > 0 ? f->timeout_ms : pool->default_timeout_ms;
}

/*
 * The symbols of a crash take a process of their own and a quarter of a second of a runner's place. The next crashes of
 * that function look the same mostly: for a while they are told by file and offset.
 */
static void note_crash(struct pool *pool, const char *fn)
{
	struct pool_crash *oldest = &pool->crash[0];

	for (size_t i = 0; i < POOL_CRASHES; i++)
		if (pool->crash[i].until_ns < oldest->until_ns)
			oldest = &pool->crash[i];
	snprintf(oldest->fn, sizeof(oldest->fn), "%s", fn);
	oldest->until_ns = clock_ns() + CRASH_NS;
}

static bool crashed_lately(const struct pool *pool, const char *fn)
{
	for (size_t i = 0; i < POOL_CRASHES; i++)
		if (pool->crash[i].until_ns && strcmp(pool->crash[i].fn, fn) == 0 &&
		    pool->crash[i].until_ns > clock_ns())
			return true;
	return false;
}

/* Returns false when the runner takes no more. */
static bool give_one(struct pool *pool, struct runner *runner)
{
	struct job *job = take_pending(pool);
	const struct runner_function *f = pool_function(pool, job->fn);

	if (job->gone) { /* while a runner that has died had it */
		free(job);
		return true;
	}
	if (!f) {
		job->next = pool->unknown;
		pool->unknown = job;
		return true;
	}
	if (job->start_by_ns && clock_ns() > job->start_by_ns) {
		job_list_push(&pool->late, job);
		return true;
	}
	if (job->max_attempts == 0)
		job->max_attempts = f->max_attempts;
	if (job->max_attempts > 0 && job->attempt - job->attempt_base > job->max_attempts) {
		end_unrun(pool, job, f->plugin);
		return true;
	}
	if ((!job->alone || !pool->begun || begun_mark(pool->begun, job->receipt)) &&
	    runner_send(runner, job, pool_limit_ms(pool, job), f->plugin, crashed_lately(pool, job->fn)))
		return true;
	pool_add_first(pool, job);
	return false;
}

/* Jobs were handed out as short ones and have turned out to be longer: they must not queue for one runner while
 * others stand idle. */
static void level(struct pool *pool, size_t each)
{
	bool idle = pool->alive < pool->runners_max;

	for (size_t i = 0; i < pool->places && !idle; i++) {
		const struct pool_member *m = &pool->member[i];

		idle = m->runner && !m->retired && runner_ready(m->runner) && runner_load(m->runner) == 0;
	}
	for (size_t i = 0; i < pool->places && idle; i++)
		if (pool->member[i].runner && runner_load(pool->member[i].runner) > each + 1)
			pool_add_first(pool, runner_recall(pool->member[i].runner));
}

void pool_dispatch(struct pool *pool)
{
	size_t each = portion(pool), idle = 0;
	uint64_t now = clock_ns();

	if (!pool->stopping && !pool->fatal.code && pool->pending_len == 0)
		level(pool, each);

	if (pool->stopping || pool->fatal.code || pool->pending_len == 0)
		return;
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;

		if (r && !pool->member[i].retired && !runner_killed(r) && runner_load(r) == 0)
			idle++;
	}
	for (size_t i = 0; i < pool->places && pool->pending_len > 0; i++) {
		struct pool_member *m = &pool->member[i];

		if (!m->runner) {
			/* One more runner only for a job that the idle ones will not take. */
			if (idle < pool->pending_len && pool->alive < pool->runners_max) {
				spawn(pool, m);
				idle++;
			}
			continue;
		}
		if (m->retired || !runner_ready(m->runner))
			continue;
		if (is_stuck(m->runner, now))
			continue;
		/* Topping up one by one would cost a message a job: wait until half is done. */
		if (runner_load(m->runner) > each / 2)
			continue;
		/* A job that must start at once waits for a runner that has nothing else in hand. */
		while (pool->pending_len > 0 && runner_load(m->runner) < each &&
		       !((pool->pending->start_by_ns || pool->pending->alone) && runner_load(m->runner) > 0) &&
		       give_one(pool, m->runner))
			;
		runner_flush(m->runner);
	}
}

/* Nobody but the one it is at, or about to begin, dies with a runner. */
static void kill_runner(struct pool *pool, struct pool_member *m, int sig, enum job_outcome why, const char *text)
{
	pool_add_first(pool, runner_recall(m->runner));
	runner_kill(m->runner, sig, why, text);
	if (sig == SIGKILL && !m->killed_ns)
		m->killed_ns = clock_ns();
}

/* ---- plugins that a runner died of -------------------------------------------------------------- */

static void free_passed_over(struct pool *pool)
{
	for (size_t i = 0; i < pool->setup.passed_over_len; i++)
		free(pool->setup.passed_over[i].file);
	free(pool->setup.passed_over);
	pool->setup.passed_over = NULL;
	pool->setup.passed_over_len = 0;
}

static struct runner_passed_over *find_passed_over(struct pool *pool, const char *file)
{
	struct runner_passed_over *list = pool->setup.passed_over;
	size_t n = pool->setup.passed_over_len;

	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].file, file) == 0)
			return &list[i];
	list = realloc(list, (n + 1) * sizeof(*list));
	if (!list)
		return NULL;
	pool->setup.passed_over = list;
	list[n] = (struct runner_passed_over){ .file = strdup(file) };
	if (!list[n].file)
		return NULL;
	pool->setup.passed_over_len++;
	return &list[n];
}

/* Runners go without this one for a while: what killed it may have been no fault of the plugin. */
static void pass_over(struct pool *pool, const char *file, bool hung)
{
	struct runner_passed_over *p = find_passed_over(pool, file);
	uint64_t wait_ns = hung ? PASS_HUNG_NS : PASS_FIRST_NS;

	if (!p) {
		log_line(LOG_L_ERROR, "plugin '%s' not loaded: out of memory", file);
		return;
	}
	for (unsigned int i = 0; i < p->times && wait_ns < PASS_MOST_NS; i++)
		wait_ns *= 2;
	wait_ns = wait_ns > PASS_MOST_NS ? PASS_MOST_NS : wait_ns;
	p->times++;
	p->until_ns = clock_ns() + wait_ns;
	log_line(LOG_L_ERROR, "plugin '%s' not loaded: its runner %s while loading it; trying again in %.0f s", file,
		 hung ? "hung" : "died", (double)wait_ns / 1e9);
}

/* This runner has got ready: what it was to load again is loaded, or refused with a reason. The others are without it.
 * */
static void end_passed_over(struct pool *pool, const struct pool_member *m)
{
	struct runner_passed_over *list = pool->setup.passed_over;
	size_t left = 0;

	for (size_t i = 0; i < pool->setup.passed_over_len; i++)
		if (list[i].until_ns <= m->spawned_ns)
			free(list[i].file);
		else
			list[left++] = list[i];
	if (left == pool->setup.passed_over_len)
		return;
	pool->setup.passed_over_len = left;
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner && &pool->member[i] != m && !pool->member[i].retired &&
		    runner_ready(pool->member[i].runner))
			retire(pool, &pool->member[i]);
}

/* When it is time to load one again a runner is started for that, in the place of another one if need be. */
static void load_again(struct pool *pool, uint64_t now)
{
	struct pool_member *free_place = NULL, *leaves = NULL;
	bool due = false;

	for (size_t i = 0; i < pool->setup.passed_over_len; i++)
		due |= pool->setup.passed_over[i].until_ns <= now;
	if (!due || pool->stopping || pool->fatal.code)
		return;
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];

		if (!m->runner)
			free_place = m;
		else if (m->retired || !runner_ready(m->runner))
			return; /* one makes room, or is loading */
		else if (!leaves || runner_load(m->runner) < runner_load(leaves->runner))
			leaves = m;
	}
	if (free_place && pool->alive < pool->runners_max)
		spawn(pool, free_place);
	else if (leaves)
		retire(pool, leaves);
}

/* ---- events ----------------------------------------------------------------------------------- */

size_t pool_pollfds(const struct pool *pool, struct pollfd *fds, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places && n + 2 <= max; i++)
		if (pool->member[i].runner) {
			runner_pollfds(pool->member[i].runner, fds + n);
			n += 2;
		}
	return n;
}

static void sooner(uint64_t *deadline, uint64_t at)
{
	if (at < *deadline)
		*deadline = at;
}

static size_t count_staying(const struct pool *pool)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places; i++)
		n += pool->member[i].runner && !pool->member[i].retired;
	return n;
}

/* Has it nothing to do, and are there enough of them without it? */
static bool may_end(const struct pool *pool, const struct pool_member *m, size_t staying)
{
	return pool->idle_ns > 0 && staying > pool->runners_keep && pool->pending_len == 0 && !m->retired &&
	       runner_ready(m->runner) && runner_load(m->runner) == 0;
}

int pool_wait_ms(const struct pool *pool, uint64_t now)
{
	uint64_t deadline = pool->short_ns ? pool->short_ns : UINT64_MAX;
	size_t staying = count_staying(pool);

	for (size_t i = 0; i < pool->setup.passed_over_len; i++)
		if (pool->setup.passed_over[i].until_ns > now)
			sooner(&deadline, pool->setup.passed_over[i].until_ns);
	for (size_t i = 0; i < pool->places; i++) {
		const struct pool_member *m = &pool->member[i];
		int64_t timeout_ms;

		if (!m->runner)
			continue;
		sooner(&deadline, pool->sweep_ns + SWEEP_NS);
		if (m->cancel_ns)
			sooner(&deadline, m->cancel_ns);
		if (m->killed_ns)
			sooner(&deadline, m->killed_ns + DIE_LIMIT_NS);
		if (m->kill_ns)
			sooner(&deadline, m->kill_ns);
		else if (!runner_ready(m->runner))
			sooner(&deadline, m->spawned_ns + LOAD_LIMIT_NS);
		else if (!runner_killed(m->runner))
			sooner(&deadline, runner_limit_ns(m->runner, &timeout_ms));
		if (may_end(pool, m, staying))
			sooner(&deadline, m->idle_since_ns + pool->idle_ns);
	}
	if (deadline == UINT64_MAX)
		return -1;
	return deadline <= now ? 0 : (int)((deadline - now) / NS_PER_MS) + 1;
}

static void collect(struct pool *pool, struct runner *runner)
{
	struct attempt *a;

	while ((a = runner_take(runner))) {
		double us = (double)(a->finished_ns - a->started_ns) / 1000;

		/* Follows a change within some ten attempts; what takes longer counts at once. */
		pool->run_us = pool->run_us < 0 || us > pool->run_us * 10 ? us : pool->run_us + (us - pool->run_us) / 8;
		if (a->outcome == JOB_CRASHED && !crashed_lately(pool, a->job->fn))
			note_crash(pool, a->job->fn);
		add_ended(pool, a);
	}
}

struct attempt *pool_take(struct pool *pool)
{
	struct attempt *a = pool->ended;

	if (a) {
		pool->ended = a->next;
		if (!pool->ended)
			pool->ended_tail = &pool->ended;
		a->next = NULL;
	}
	return a;
}

void pool_read(struct pool *pool)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;
		struct deferred_error err = { 0 };
		bool was_ready;
		int rc;

		if (!r)
			continue;
		was_ready = runner_ready(r);
		runner_pause(r, attempt_held_bytes() > HELD_MAX);
		rc = runner_read(r, &err);
		if ((rc == DEFERRED_EPLUGIN || rc == DEFERRED_ECONFIG) && !pool->fatal.code)
			pool->fatal = err;
		else if (rc < 0 && !runner_killed(r))
			kill_runner(pool, &pool->member[i], SIGKILL, JOB_FAILED,
				    "wrote nonsense to the socket or the board of its runner");
		else
			runner_flush(r);
		if (runner_deaf(r) && !is_running(r) && !runner_killed(r) && !pool->member[i].retired)
			kill_runner(pool, &pool->member[i], SIGKILL, JOB_INTERRUPTED,
				    "a function closed the socket of its runner");
		if (!was_ready && runner_ready(r)) {
			pool->failed_starts = 0;
			end_passed_over(pool, &pool->member[i]);
			learn_functions(pool, r);
		}
		collect(pool, r);
	}
}

static void remove_member(struct pool *pool, struct pool_member *m)
{
	collect(pool, m->runner);
	pool_add_first(pool, runner_recall(m->runner));
	runner_free(m->runner);
	m->runner = NULL;
	pool->alive--;
}

/* What was killed and does not die is not waited for. Should it die after all, it is one more child that nobody knows.
 * */
static void give_up_stuck(struct pool *pool, uint64_t now)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];
		struct job *job;

		if (!m->runner || !m->killed_ns || now < m->killed_ns + DIE_TELL_NS)
			continue;
		if (!m->told_alive)
			runner_tell_alive(m->runner);
		m->told_alive = true;
		if (now < m->killed_ns + DIE_LIMIT_NS)
			continue;
		job = runner_give_up(m->runner);
		if (job)
			job_list_push(&pool->abandoned, job);
		remove_member(pool, m);
	}
}

static void bury(struct pool *pool, struct pool_member *m, int status)
{
	struct deferred_error err = { 0 };
	bool was_ready, failed;
	const char *loading;
	int rc;

	/* Why it refused its plugins may still be in the socket. */
	rc = runner_read(m->runner, &err);
	if ((rc == DEFERRED_EPLUGIN || rc == DEFERRED_ECONFIG) && !pool->fatal.code)
		pool->fatal = err;
	was_ready = runner_ready(m->runner) || (runner_killed(m->runner) && !m->load_failed);
	loading = runner_reaped(m->runner, status);
	if (loading && !pool->fatal.code)
		pass_over(pool, loading, m->load_failed);
	failed = !loading && !was_ready && !m->retired;
	remove_member(pool, m);
	if (failed && !pool->fatal.code && ++pool->failed_starts >= FAILED_STARTS_MAX) {
		error_clear(&err);
		error_set(&err, DEFERRED_ESYSTEM, "runner", "runners die before they are ready (%s %d)",
			  WIFSIGNALED(status) ? "signal" : "exit status",
			  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		error_hint(&err, "is '%s' there and executable?", pool->setup.program);
		no_runner(pool, &err);
	}
}

static size_t known_pids(const struct pool *pool, pid_t *pids, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places && n < max; i++)
		if (pool->member[i].runner)
			pids[n++] = runner_pid(pool->member[i].runner);
	return n;
}

static void sweep(struct pool *pool)
{
	pid_t pids[256]; /* of the largest pool */

	orphan_sweep(pids, known_pids(pool, pids, sizeof(pids) / sizeof(pids[0])));
	pool->sweep_ns = clock_ns();
}

void pool_reap(struct pool *pool)
{
	bool died = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < pool->places; i++)
			if (pool->member[i].runner && runner_pid(pool->member[i].runner) == pid) {
				bury(pool, &pool->member[i], status);
				died = true;
			}
	if (died)
		sweep(pool); /* its children have just become ours */
}

/* It was asked to end its job, which was cancelled. */
static void check_cancelled(struct pool *pool, struct pool_member *m, uint64_t now)
{
	const struct job *job = runner_current(m->runner);

	if (!job || job->gone != JOB_GONE_CANCELLED)
		m->cancel_ns = 0;
	if (!m->cancel_ns || now < m->cancel_ns)
		return;
	m->cancel_ns = 0;
	kill_runner(pool, m, SIGKILL, JOB_LOST, "cancelled");
}

static void check_limits(struct pool *pool, struct pool_member *m, uint64_t now)
{
	int64_t timeout_ms;
	char text[128];

	if (m->kill_ns) {
		if (now >= m->kill_ns) {
			kill_runner(pool, m, SIGKILL, JOB_TIMEOUT, "");
			m->kill_ns = now + NS_PER_S;
		}
		return;
	}
	if (runner_killed(m->runner))
		return;
	if (m->cancel_ns)
		check_cancelled(pool, m, now);
	if (runner_killed(m->runner))
		return;
	if (m->retired && runner_load(m->runner) == 0 && now > m->idle_since_ns + LEAVE_LIMIT_NS) {
		kill_runner(pool, m, SIGKILL, JOB_INTERRUPTED, "the runner did not leave");
		return;
	}
	if (!runner_ready(m->runner)) {
		if (now - m->spawned_ns >= LOAD_LIMIT_NS) {
			m->load_failed = true;
			kill_runner(pool, m, SIGKILL, JOB_INTERRUPTED, "plugins took too long to load");
		}
		return;
	}
	if (now < runner_limit_ns(m->runner, &timeout_ms))
		return;
	if (timeout_ms == 0) {
		log_line(LOG_L_ERROR, "runner %d neither begins nor ends its job: killed", (int)runner_pid(m->runner));
		kill_runner(pool, m, SIGKILL, JOB_INTERRUPTED, "the runner stalled");
		return;
	}
	snprintf(text, sizeof(text), "time limit of %lld ms exceeded", (long long)timeout_ms);
	kill_runner(pool, m, SIGTERM, JOB_TIMEOUT, text);
	m->kill_ns = now + (uint64_t)pool->kill_after_ms * NS_PER_MS;
}

void pool_tick(struct pool *pool, uint64_t now)
{
	size_t staying = count_staying(pool);

	if (pool->short_ns && now >= pool->short_ns)
		end_short(pool);
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];

		if (!m->runner)
			continue;
		check_limits(pool, m, now);
		if (runner_load(m->runner) > 0)
			m->idle_since_ns = now;
		if (may_end(pool, m, staying) && now >= m->idle_since_ns + pool->idle_ns) {
			retire(pool, m);
			staying--;
		}
	}
	give_up_stuck(pool, now);
	load_again(pool, now);
	if (pool->alive > 0 && now >= pool->sweep_ns + SWEEP_NS)
		sweep(pool);
}

void pool_reload(struct pool *pool, const struct runner_setup *setup)
{
	size_t wanted = (size_t)config_int(setup->config, "runners");
	struct pool_member *bigger = wanted > pool->places ? realloc(pool->member, wanted * sizeof(*bigger)) : NULL;

	free_passed_over(pool);
	take_settings(pool, setup);
	if (bigger) {
		memset(bigger + pool->places, 0, (wanted - pool->places) * sizeof(*bigger));
		pool->member = bigger;
		pool->places = wanted;
	}
	if (pool->runners_max > pool->places)
		pool->runners_max = pool->places; /* no memory for more */
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner && !pool->member[i].retired)
			retire(pool, &pool->member[i]);
}

/* ---- the end ---------------------------------------------------------------------------------- */

void pool_stop(struct pool *pool)
{
	pool->stopping = true;
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			runner_ask_stop(pool->member[i].runner);
}

void pool_kill(struct pool *pool, int64_t id, int sig, enum job_outcome why, const char *text)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];
		const struct job *job;

		if (!m->runner)
			continue;
		job = runner_current(m->runner);
		if (id != 0 && (!job || job->id != id))
			continue;
		kill_runner(pool, m, sig, why, text);
		if (sig != SIGKILL && !m->kill_ns)
			m->kill_ns = clock_ns() + (uint64_t)pool->kill_after_ms * NS_PER_MS;
	}
}

void pool_end_gone(struct pool *pool, uint64_t now)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];
		const struct job *job;

		if (!m->runner || runner_killed(m->runner))
			continue;
		job = runner_current(m->runner);
		if (!job)
			continue;
		if (job->gone == JOB_GONE_TAKEN) {
			kill_runner(pool, m, SIGKILL, JOB_LOST, "taken by another claim");
		} else if (job->gone == JOB_GONE_CANCELLED && !m->cancel_ns) {
			runner_ask_cancelled(m->runner);
			m->cancel_ns = now + (uint64_t)pool->kill_after_ms * NS_PER_MS;
		}
	}
}

void pool_each_progress(const struct pool *pool, void (*f)(void *data, const struct job_progress *progress), void *data)
{
	struct job_progress progress;

	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner && runner_progress(pool->member[i].runner, &progress))
			f(data, &progress);
}

void pool_each_running(const struct pool *pool, void (*f)(void *data, const struct job *job), void *data)
{
	for (size_t i = 0; i < pool->places; i++) {
		const struct job *job;
		uint64_t started;
		int64_t timeout;

		job = pool->member[i].runner ? runner_running(pool->member[i].runner, &started, &timeout) : NULL;
		if (job)
			f(data, job);
	}
}

bool pool_remove_file(struct pool *pool, const char *path)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;

		if (r && !pool->member[i].retired && runner_ready(r) && runner_remove_file(r, path))
			return runner_flush(r) == 0;
	}
	return false;
}

void pool_clear(struct pool *pool)
{
	struct attempt *a;

	job_list_free(pool_recall(pool));
	/* Idle runners leave when their socket closes and have a moment for it; the others are killed. */
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			runner_quit(pool->member[i].runner);
	for (int round = 0; pool->alive > 0; round++) {
		if (round == 50)
			pool_kill(pool, 0, SIGKILL, JOB_INTERRUPTED, "the run ended");
		pool_reap(pool);
		give_up_stuck(pool, clock_ns());
		if (pool->alive > 0)
			poll(NULL, 0, 2);
	}
	sweep(pool);
	while ((a = pool_take(pool)))
		attempt_free(a);
	job_list_free(pool_recall(pool));
	job_list_free(pool->unknown);
	job_list_free(pool->late);
	job_list_free(pool->abandoned);
	free_functions(pool->functions, pool->functions_len);
	free_functions(pool->clashes, pool->clashes_len);
	while (pool->functions_old) {
		struct functions_old *old = pool->functions_old;

		pool->functions_old = old->next;
		free_functions(old->functions, old->len);
		free(old);
	}
	free_passed_over(pool);
	free(pool->member);
	memset(pool, 0, sizeof(*pool));
}
