/* SPDX-License-Identifier: MIT */
#include "top.h"

#include "cmd.h"
#include "rows/admin.h"
#include "table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct frame {
	FILE *out;
	int rows, cols, n;
	bool terminal;
	int name; /* so wide are those of queues and functions */
};

__attribute__((format(printf, 3, 0)))
static void
put(struct frame *f, bool bold, const char *fmt, va_list ap)
{
	char *text = NULL, *clean;

	if (f->rows > 0 && f->n >= f->rows)
		return;
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	clean = table_clean(text ? text : "out of memory", (size_t)f->cols, TABLE_ONE_LINE);
	if (!f->terminal)
		fprintf(f->out, "%s\n", clean);
	else /* no line end behind the last one, or the screen would roll */
		fprintf(f->out, "%s%s%s%s\x1b[K", f->n ? "\n" : "", bold ? "\x1b[1m" : "", clean,
			bold ? "\x1b[0m" : "");
	f->n++;
	free(clean);
	free(text);
}

static void top_frame_line(struct frame *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void head(struct frame *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void top_frame_line(struct frame *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(f, false, fmt, ap);
	va_end(ap);
}

static void head(struct frame *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(f, true, fmt, ap);
	va_end(ap);
}

/* ---- figures -------------------------------------------------------------------------------------- */

#define ROWS(res) ((res) ? pg_rows(res) : 0)

/* The row of a queue, or of a function; with neither that of all. */
static size_t top_frame_find(const struct top *top, const char *queue, const char *fn)
{
	size_t i = 0;

	for (; i < ROWS(top->recent); i++) {
		struct top_recent_row r = top_recent_row(top->recent, i);

		if (!r.queue == !queue && !r.fn == !fn && (!queue || strcmp(queue, r.queue) == 0) &&
		    (!fn || strcmp(fn, r.fn) == 0))
			break;
	}
	return i;
}

/* Zeros where there is no such row. */
static struct top_recent_row recent_of(const struct top *top, size_t row)
{
	return row < ROWS(top->recent) ? top_recent_row(top->recent, row) : (struct top_recent_row){ 0 };
}

static void top_frame_print_head(struct frame *f, const struct top *top)
{
	struct top_arrivals_row r;
	const struct cause_backlog *b = &top->why.backlog;
	int64_t ready = 0, late = 0, running = 0, ended, failed;
	struct top_recent_row all = recent_of(top, top_frame_find(top, NULL, NULL));
	char age[TABLE_AGE_SIZE];
	bool more = false;

	for (size_t i = 0; i < b->queues_len; i++) {
		ready += b->queues[i].ready;
		running += b->queues[i].running;
		more |= b->queues[i].more;
		if (b->queues[i].ready > 0 && b->queues[i].oldest_s > late)
			late = b->queues[i].oldest_s;
	}
	ended = all.ended_15;
	failed = all.failed_15;
	r = top_arrivals_row(top->arrivals, 0);
	head(f, "%s%s%s  live workers: %" PRId64 "  ready: %" PRId64 "%s  late by: %s  claimed: %" PRId64, r.as_of,
	     top->queue ? "  queue " : "", top->queue ? top->queue : "", r.workers, ready, more ? "+" : "",
	     table_age(age, late), running);
	top_frame_line(
		f, "a minute, over the last 1, 5, 15: arrived %.1f %.1f %.1f%s  ended %.1f %.1f %.1f%s  failed %.1f %%",
		(double)r.arrived_1, (double)r.arrived_5 / 5, (double)r.arrived_15 / 15, r.more ? "+" : "",
		(double)all.ended_1, (double)all.ended_5 / 5, (double)ended / 15, all.more ? "+" : "",
		ended ? 100.0 * (double)failed / (double)ended : 0);
}

/* ---- queues, the latest first --------------------------------------------------------------------- */

static int later(const void *a, const void *b)
{
	const struct cause_queue *x = a, *y = b;
	int64_t late_x = x->ready > 0 ? x->oldest_s : -1, late_y = y->ready > 0 ? y->oldest_s : -1;

	return late_x != late_y ? (late_x < late_y) - (late_x > late_y) : strcmp(x->name, y->name);
}

void top_sort_queues(struct top *top)
{
	struct cause_backlog *b = &top->why.backlog;

	if (b->queues_len > 0)
		qsort(b->queues, b->queues_len, sizeof(*b->queues), later);
}

static void top_frame_print_queues(struct frame *f, const struct top *top, int max)
{
	const struct cause_backlog *b = &top->why.backlog;
	char age[TABLE_AGE_SIZE], wait[TABLE_AGE_SIZE];

	head(f, "%-*s %8s %8s %8s %6s %8s %8s  %s", f->name, "QUEUE", "READY", "CLAIMED", "DELAYED", "LATE", "ENDED/5m",
	     "WAIT", "HELD BY");
	for (size_t i = 0; i < b->queues_len && (max < 0 || i < (size_t)max); i++) {
		const struct cause_queue *q = &b->queues[i];
		struct top_recent_row r = recent_of(top, top_frame_find(top, q->name, NULL));

		top_frame_line(f, "%-*.*s %7" PRId64 "%s %8" PRId64 " %8" PRId64 " %6s %8" PRId64 " %8s  %s", f->name,
			       f->name, q->name, q->ready, q->more ? "+" : " ", q->running, q->delayed,
			       q->ready > 0 ? table_age(age, q->oldest_s) : "", r.ended_5,
			       r.has_wait_us ? table_us(wait, r.wait_us) : "",
			       q->paused          ? "paused"
			       : q->limit_used_up ? "limits"
						  : "");
	}
}

/* ---- functions ------------------------------------------------------------------------------------ */

struct function {
	const char *fn;
	int64_t running, longest_s;
	size_t row; /* of recent */
	double key;
};

static int by_key(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->key != y->key           ? (x->key < y->key) - (x->key > y->key)
	       : x->running != y->running ? (x->running < y->running) - (x->running > y->running)
					  : strcmp(x->fn, y->fn);
}

static struct function *function_of(struct function *functions, size_t *n, const char *fn)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(functions[i].fn, fn) == 0)
			return &functions[i];
	functions[*n] = (struct function){ .fn = fn };
	return &functions[(*n)++];
}

static double sort_key(const struct top *top, size_t row)
{
	struct top_recent_row r = recent_of(top, row);

	switch (top->sort) {
	case TOP_BY_RUN:
		return (double)r.run_us * (double)r.ended_15;
	case TOP_BY_CPU:
		return (double)r.cpu_us * (double)r.ended_15;
	case TOP_BY_FAILED:
		return (double)r.failed_15;
	default:
		return (double)r.ended_15;
	}
}

static void top_frame_print_functions(struct frame *f, const struct top *top, int max)
{
	static const char *const words[] = {
#define X(name, word) word,
		TOP_SORTS(X)
#undef X
	};
	struct function *functions = calloc(ROWS(top->recent) + ROWS(top->running) + 1, sizeof(*functions));
	char run[TABLE_AGE_SIZE], age[TABLE_AGE_SIZE];
	size_t n = 0;

	head(f, "%-*s %8s %8s %8s %8s %8s  by %s", f->name, "FUNCTION", "CLAIMED", "LONGEST", "ENDED/5m", "FAIL/15m",
	     top->sort == TOP_BY_CPU ? "CPU" : "RUN", words[top->sort]);
	if (!functions)
		return;
	for (size_t i = 0; i < ROWS(top->recent); i++)
		if (top_recent_row(top->recent, i).fn)
			function_of(functions, &n, top_recent_row(top->recent, i).fn);
	for (size_t i = 0; i < ROWS(top->running); i++) {
		struct top_running_row r = top_running_row(top->running, i);
		struct function *fn = function_of(functions, &n, r.fn);

		fn->running++;
		if (r.claimed_s > fn->longest_s)
			fn->longest_s = r.claimed_s;
	}
	for (size_t i = 0; i < n; i++) {
		functions[i].row = top_frame_find(top, NULL, functions[i].fn);
		functions[i].key = sort_key(top, functions[i].row);
	}
	qsort(functions, n, sizeof(*functions), by_key);
	for (size_t i = 0; i < n && (max < 0 || (int)i < max); i++) {
		const struct function *fn = &functions[i];
		struct top_recent_row r = recent_of(top, fn->row);
		bool cpu = top->sort == TOP_BY_CPU;
		const char *mean = "";

		if (cpu ? r.has_cpu_us : r.has_run_us)
			mean = table_us(run, cpu ? r.cpu_us : r.run_us);
		top_frame_line(f, "%-*.*s %8" PRId64 " %8s %8" PRId64 " %8" PRId64 " %8s", f->name, f->name, fn->fn,
			       fn->running, fn->running ? table_age(age, fn->longest_s) : "", r.ended_5, r.failed_15,
			       mean);
	}
	free(functions);
}

/* ---- jobs that workers have ----------------------------------------------------------------------- */

static void top_frame_print_running(struct frame *f, const struct top *top, int max)
{
	char age[TABLE_AGE_SIZE], lease[TABLE_AGE_SIZE];

	head(f, "%12s %-*s %-*s %6s %6s  %s", "JOB", f->name, "FUNCTION", f->name - 4, "QUEUE", "FOR", "LEASE",
	     "WORKER, PROGRESS");
	for (size_t i = 0; i < ROWS(top->running) && (max < 0 || i < (size_t)max); i++) {
		struct top_running_row r = top_running_row(top->running, i);
		const char *progress = r.progress;

		top_frame_line(f, "%12" PRId64 " %-*.*s %-*.*s %6s %6s  %s pid %" PRId64 "%s%s", r.id, f->name, f->name,
			       r.fn, f->name - 4, f->name - 4, r.queue, table_age(age, r.claimed_s),
			       table_age(lease, r.lease_s), r.host, r.pid, progress[0] ? ", " : "", progress);
	}
}

/* ---- all of it ------------------------------------------------------------------------------------ */

#define FIXED 11 /* lines that are always there: two of the head, three headers, three blank ones, three of why */

static int at_most(size_t n, int max)
{
	return (int)n < max ? (int)n : max;
}

void top_frame(const struct top *top, FILE *out, int rows, int cols, bool terminal)
{
	struct frame f = { out, rows, cols, 0, terminal, cols > 0 && cols < 100 ? 18 : 32 };
	const struct cause *c = top->causes_len > 0 ? top->causes : NULL;
	int room = rows > FIXED ? rows - FIXED : 0, queues = -1, functions = -1, running = -1;

	/* If not all fits, each part has a third. Queues take what the others leave free, and jobs the rest. */
	if (rows > 0) {
		functions = at_most(ROWS(top->recent) + ROWS(top->running), room / 3);
		queues = at_most(top->why.backlog.queues_len, room - functions - at_most(ROWS(top->running), room / 3));
		running = room - queues - functions;
	}
	top_frame_print_head(&f, top);
	if (c) {
		top_frame_line(&f, "why: %s", c->why);
		top_frame_line(&f, "     %s", c->figure);
		top_frame_line(&f, "do:  %s", c->remedy[0] ? c->remedy : "nothing");
	}
	top_frame_line(&f, "%s", terminal ? "q quit, space hold, s sort, l refresh" : "");
	top_frame_print_queues(&f, top, queues);
	top_frame_line(&f, "%s", "");
	top_frame_print_functions(&f, top, functions);
	top_frame_line(&f, "%s", "");
	top_frame_print_running(&f, top, running);
}
