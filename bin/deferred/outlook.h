/* SPDX-License-Identifier: MIT */
/* outlook - what `simulate` and `advise` have in common: options, what was, and how it is told. */
#ifndef OUTLOOK_H
#define OUTLOOK_H

#include "cmd.h"

#include "base/advice.h"
#include "port/params.h"
#include "store/advise.h"

struct outlook {
	/* As it was asked for. */
	const char *queue;
	int64_t since_ms;
	double scale;
	struct advice_wanted wanted;

	/* What was: the latest, and the busiest hours of the week where they lie before that. */
	struct store_past past[2];
	struct advice_history histories[2];
	size_t n;
	int64_t attempts;        /* of them */
	int64_t waiting;         /* jobs that arrived in that time and had not begun: the arrivals are so many more */
	double now_rate;         /* arrivals a second in the last hour; < 0: not known */
	int64_t peak_us;         /* begin of the busiest hour, since 2000 */
	double peak_cores;       /* processors that it took; < 0: not known */
};

/* Options of both. own of the command begins with these. */
enum { OUTLOOK_QUEUE = 1, OUTLOOK_SINCE, OUTLOOK_SCALE, OUTLOOK_START, OUTLOOK_BETWEEN, OUTLOOK_OWN };
#define OUTLOOK_OPTIONS \
	{ "queue", required_argument, NULL, OUTLOOK_QUEUE }, { "since", required_argument, NULL, OUTLOOK_SINCE }, \
	{ "scale", required_argument, NULL, OUTLOOK_SCALE }, { "start", required_argument, NULL, OUTLOOK_START }, \
	{ "between", required_argument, NULL, OUTLOOK_BETWEEN }

void outlook_init(struct outlook *o);

/* One of these options. False: it was reported, return EX_USAGE. */
bool outlook_option(struct outlook *o, const struct cli *cli, int c);

/* A number in [min, max]. False: as above. */
bool outlook_real(const struct cli *cli, const char *what, const char *text, double min, double max, double *value);

/* Read what was. Returns 0 or the exit code; it was reported. */
int outlook_read(struct outlook *o, struct cli *cli);
void outlook_clear(struct outlook *o);

/* Days of the latest history. */
double outlook_days(const struct outlook *o);

/* What arrives, what is served, what it rests on: lines, or members of an object. */
void outlook_tell(const struct outlook *o, const struct advice *advice);
void outlook_json(const struct outlook *o, const struct advice *advice, struct params_text *t);

/* Waits by queue after a replay of the setting. Returns 0 or the exit code. */
int outlook_queues(const struct outlook *o, const struct cli *cli, const struct advice *advice, struct params_text *t);

/* A wait for people; for programs in seconds, or null. */
const char *outlook_us(char buf[32], int64_t us);
void outlook_number_us(struct params_text *t, const char *key, int64_t us);

#endif
