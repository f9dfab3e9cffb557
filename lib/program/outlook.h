/* SPDX-License-Identifier: MIT */
/* outlook - the common part of `simulate` and `advise`: the recorded past, and its report by a command or a page. */
#ifndef OUTLOOK_H
#define OUTLOOK_H

#include "base/advice/advice.h"
#include "base/advice/crontab.h"
#include "base/error.h"
#include "port/params.h"
#include "store/advise.h"

/* The result of today's lines in a replay of the past. */
struct outlook_today {
	const char *const *text;
	size_t n;
	bool given; /* by who asks; else by workers that were seen */
	/* The longest wait of the wanted share of each queue, and of all. ADVICE_NEVER: some still wait at the end. */
	int64_t share_us, longest_us;
};

struct outlook {
	/* As it was asked for. */
	const char *queue;
	int64_t since_ms;
	double scale;
	struct store_advise_scale *run_scales; /* the caller's; NULL: none */
	size_t run_scales_len;
	struct advice_wanted wanted;
	struct store_advise_bounds bounds;

	/* The recorded past: the latest history, and the busiest hours of the week before it. */
	struct store_past past[2];
	struct advice_history histories[2];
	size_t n;
	int64_t attempts; /* of them in the log */
	int64_t waiting;  /* jobs that arrived in that time and had not begun, in addition to the arrivals */
	double now_rate;  /* arrivals a second in the last hour; < 0: not known */
	int64_t peak_us;  /* begin of the busiest hour, since 2000 */
	const struct outlook_today *today; /* told with an advice; NULL: not known */
	double peak_cores;                 /* processors that it took; < 0: not known */
};

void outlook_init(struct outlook *o);

/* Read what was. No transaction is open. Returns 0 or a DEFERRED_E...; err->where is OUTLOOK_TOO_MANY where it is the
 * question that asks for too much. */
#define OUTLOOK_TOO_MANY "scale"
int outlook_read(struct outlook *o, struct pg *pg, struct deferred_error *err);
void outlook_clear(struct outlook *o);

/* Days of the latest history. */
double outlook_days(const struct outlook *o);

/* A replay and its result. */
struct outlook_lines {
	struct crontab_line *line;
	size_t n;
	struct forecast_result result; /* of all histories */
};

/* Those of a setting. lines: room for FORECAST_LINES, with nothing to be cleared. */
void outlook_lines_of(const struct advice *advice, struct crontab_line *lines, struct outlook_lines *to);

/* Replay them: waits of the jobs of the histories, and the result. Returns 0 or a DEFERRED_E... */
int outlook_replay(const struct outlook *o, struct outlook_lines *lines, struct deferred_error *err);

/* The same of lines that are at work today: what that gives, in today->share_us and longest_us. */
int outlook_replay_today(const struct outlook *o, struct outlook_lines *lines, struct outlook_today *today,
			 struct deferred_error *err);

/* How jobs of a queue would have waited; queue "*": those of all. */
#define OUTLOOK_SHARES 4
struct outlook_wait {
	const char *queue;
	int64_t attempts;
	/* the longest wait of 50, 95 and 99 % of them, and of all; ADVICE_NEVER: some still wait at the end */
	int64_t us[OUTLOOK_SHARES];
};

/* The receiver of the report, for people. */
struct outlook_sink {
	/* name: the subject of the text; "": it continues the text before; NULL: the text names it. */
	void (*line)(void *data, const char *name, const char *text);
	void (*wait)(void *data, const struct outlook_wait *wait);
	void *data;
};
void outlook_line(const struct outlook_sink *to, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The arrivals, the service, and their basis: lines, or members of an object. */
void outlook_tell(const struct outlook *o, const struct outlook_lines *lines, const struct outlook_sink *to);
void outlook_json(const struct outlook *o, const struct outlook_lines *lines, struct params_text *t);

/* Waits by queue, after a replay. */
void outlook_waits(const struct outlook *o, const struct outlook_sink *to);
void outlook_json_waits(const struct outlook *o, struct params_text *t);

/* A wait for people; for programs in seconds, or null. */
const char *outlook_us(char buf[32], int64_t us);
const char *outlook_rate(char buf[32], double a_second); /* per hour */
void outlook_number_us(struct params_text *t, const char *key, int64_t us);

#endif
