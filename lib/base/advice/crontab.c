/* SPDX-License-Identifier: MIT */
#include "crontab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WHERE "line"
#define PROGRAM "check_deferred"
#define MINUTE_US INT64_C(60000000)
#define EPOCH_2000 INT64_C(946684800)
#define DAYS 1461 /* of four years, from 1 January 2000 on, a Saturday */
#define FIELDS 5
#define CNT_MAX 1000000000

/* ---- words ------------------------------------------------------------------------------------ */

struct reader {
	const char *text;
	char *rest;        /* not read yet */
	const char *value; /* that of the option, behind a =; NULL: the next word */
	bool service, loop, listen, cnt;
	struct crontab_line *line;
	struct deferred_error *err;
};

/* NULL: the end of what is for the program. */
static char *crontab_next_word(struct reader *r)
{
	static const char blanks[] = " \t";
	char *word = r->rest + strspn(r->rest, blanks);
	size_t len = strcspn(word, blanks);

	if (len == 0 || strchr("<>|&;#", *word) || word[strspn(word, "0123456789")] == '>')
		return NULL;
	r->rest = word + len + (word[len] != '\0');
	word[len] = '\0';
	return word;
}

static int crontab_wrong(struct reader *r, const char *what, const char *word, const char *remedy)
{
	error_set(r->err, DEFERRED_EINVAL, WHERE, "line '%.200s': %s '%.64s'", r->text, what, word);
	error_hint(r->err, "%s", remedy);
	return DEFERRED_EINVAL;
}

static int no_program(struct reader *r, const char *word)
{
	return crontab_wrong(
		r, "neither " PROGRAM " nor an option of it:", word,
		r->service ? "write it as 'runners 4', or as " PROGRAM " --loop --listen --runners 4"
			   : "write it as '*/2 * * * * --cnt 10 --runners 2', or as it stands in the crontab");
}

/* ---- options ---------------------------------------------------------------------------------- */

static bool crontab_number(const char *text, int64_t min, int64_t max, int64_t *value)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(text, &end, 10);
	*value = n;
	return *text >= '0' && *text <= '9' && !*end && errno == 0 && n >= min && n <= max;
}

static int on_cnt(struct reader *r, const char *value)
{
	r->cnt = true;
	return crontab_number(value, 0, CNT_MAX, &r->line->cnt)
		       ? 0
		       : crontab_wrong(r, "--cnt is not a whole number from 0 to 1000000000:", value,
				       "for example --cnt 10; 0 means until nothing is ready");
}

/* Of a range the replay has the upper end: it has as many once they are needed. */
static int on_runners(struct reader *r, const char *value)
{
	const char *dots = strstr(value, "..");
	int64_t n;

	if (!crontab_number(dots ? dots + 2 : value, 1, FORECAST_RUNNERS, &n))
		return crontab_wrong(r, "--runners is not a whole number from 1 to 64:", value,
				     "for example --runners 4 or --runners 1..8");
	r->line->runners = (int)n;
	return 0;
}

static int on_if_running(struct reader *r, const char *value)
{
	r->line->replace = strcmp(value, "replace") == 0;
	return r->line->replace || strcmp(value, "skip") == 0
		       ? 0
		       : crontab_wrong(r, "--if-running is not replace or skip:", value,
				       "for example --if-running=skip");
}

static int on_queue(struct reader *r, const char *value)
{
	if (r->line->queues == CRONTAB_QUEUES)
		return crontab_wrong(r, "more than 32 queues:", value, "use --queue at most 32 times");
	r->line->queue[r->line->queues++] = value;
	return 0;
}

static int on_pidfile(struct reader *r, const char *value)
{
	r->line->pidfile = value;
	return 0;
}

static int on_loop(struct reader *r, const char *value)
{
	(void)value;
	r->loop = true;
	return 0;
}

static int on_listen(struct reader *r, const char *value)
{
	(void)value;
	r->listen = true;
	return 0;
}

static int on_other(struct reader *r, const char *value)
{
	(void)r;
	(void)value;
	return 0;
}

static int on_balance(struct reader *r, const char *value)
{
	return crontab_wrong(r, "what a balance of workers does is not replayed, that of", value,
			     "leave --balance out");
}

static int on_window(struct reader *r, const char *value)
{
	return crontab_wrong(r, "jobs are replayed as with --window 100, and not", value, "leave --window out");
}

struct option {
	const char *name;
	bool value;
	int (*on)(struct reader *r, const char *value);
};

/* Those of check_deferred. on_other: it does not matter for how long jobs wait. */
static const struct option options[] = {
	{ "cnt", true, on_cnt },
	{ "runners", true, on_runners },
	{ "if-running", true, on_if_running },
	{ "queue", true, on_queue },
	{ "pidfile", true, on_pidfile },
	{ "loop", false, on_loop },
	{ "listen", false, on_listen },
	{ "balance", true, on_balance },
	{ "window", true, on_window },
	{ "plugin-dir", true, on_other },
	{ "isolate", true, on_other },
	{ "user", true, on_other },
	{ "allow-root", false, on_other },
	{ "timeout", true, on_other },
	{ "grace", true, on_other },
	{ "lease", true, on_other },
	{ "interval-floor", true, on_other },
	{ "interval-ceiling", true, on_other },
	{ "exponent", true, on_other },
	{ "gradual-decrease", false, on_other },
	{ "batch", true, on_other },
	{ "seed", true, on_other },
	{ "db", true, on_other },
	{ "shard", true, on_other },
	{ "log-level", true, on_other },
	{ "log-format", true, on_other },
	{ "config", true, on_other },
};

/* The value behind a = is cut off. */
static const struct option *crontab_find(struct reader *r, char *word)
{
	char *name = word + (strncmp(word, "--", 2) == 0 ? 2 : 0), *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);

	if (name == word && !r->service)
		return NULL;
	r->value = equals ? equals + 1 : NULL;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strlen(options[i].name) == len && strncmp(options[i].name, name, len) == 0)
			return &options[i];
	return NULL;
}

static int read_options(struct reader *r, char *word)
{
	for (; word; word = crontab_next_word(r)) {
		const struct option *o = crontab_find(r, word);
		int rc;

		if (!o)
			return no_program(r, word);
		if (o->value && !r->value)
			r->value = crontab_next_word(r);
		if (o->value != (r->value != NULL))
			return crontab_wrong(r, o->value ? "a value is missing behind" : "no value goes with", word,
					     "check_deferred --help lists its options");
		rc = o->on(r, r->value);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- a line ----------------------------------------------------------------------------------- */

static bool is_program(const char *word)
{
	const char *slash = strrchr(word, '/');

	return strcmp(slash ? slash + 1 : word, PROGRAM) == 0;
}

/* Fields stand in the words as one, with a blank between two. */
static int read_rule(struct reader *r, char *rule)
{
	r->line->rule = rule;
	*rule = '\0';
	for (int i = 0; i < FIELDS; i++) {
		char *word = crontab_next_word(r);

		if (!word || is_program(word) || strncmp(word, "--", 2) == 0)
			return crontab_wrong(
				r, "fewer than five fields of time:", rule,
				"write minute hour day month weekday, such as '*/2 * * * *', or @hourly; a "
				"service is for --service");
		if (i > 0)
			strcat(rule, " ");
		strcat(rule, word);
		if (*rule == '@')
			break;
	}
	return 0;
}

/* User, environment and whatever starts the program stand before it. */
static char *skip_to_program(struct reader *r)
{
	char *word;
	bool there = false;

	for (const char *p = r->rest; (p = strstr(p, PROGRAM)); p += strlen(PROGRAM))
		there |= (p == r->rest || strchr(" \t/", p[-1])) && strchr(" \t", p[strlen(PROGRAM)]);
	word = crontab_next_word(r);
	there &= word && *word != '-';
	while (there && word && !is_program(word))
		word = crontab_next_word(r);
	return word && is_program(word) ? crontab_next_word(r) : word;
}

static int crontab_check(struct reader *r)
{
	if (r->service && r->loop && !r->listen)
		return crontab_wrong(r, "a service that sleeps when nothing is ready is not replayed:", "--loop",
				     "add --listen");
	if (!r->service && (r->loop || r->listen))
		return crontab_wrong(r, "cron starts no service:", r->loop ? "--loop" : "--listen",
				     "give it without the fields of time, as --service");
	return 0;
}

int crontab_read(const char *text, bool service, struct crontab_line *line, struct deferred_error *err)
{
	size_t len = strlen(text);
	struct reader r = { .text = text, .service = service, .line = line, .err = err };
	int rc = 0;

	*line = (struct crontab_line){ .cnt = service ? 0 : 1,
				       .runners = 1,
				       .replace = !service,
				       .interval_us = service ? 0 : 1,
				       .words = malloc(2 * len + 2) };
	if (!line->words)
		return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	r.rest = strcpy(line->words + len + 1, text);
	if (!service)
		rc = read_rule(&r, line->words);
	if (rc == 0)
		rc = read_options(&r, skip_to_program(&r));
	return rc == 0 ? crontab_check(&r) : rc;
}

void crontab_clear(struct crontab_line *line)
{
	free(line->words);
	*line = (struct crontab_line){ 0 };
}

int crontab_apart(const struct crontab_line *lines, size_t n, struct deferred_error *err)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (lines[i].pidfile && lines[k].pidfile && strcmp(lines[i].pidfile, lines[k].pidfile) == 0) {
				error_set(err, DEFERRED_EINVAL, WHERE,
					  "two lines have the pid file '%.100s': each start would end, or leave "
					  "alone, what the other one has started",
					  lines[i].pidfile);
				error_hint(err, "give each a --pidfile of its own");
				return DEFERRED_EINVAL;
			}
	return 0;
}

/* ---- ticks ------------------------------------------------------------------------------------ */

static bool crontab_has(int64_t bits, int n)
{
	return (uint64_t)bits >> n & 1;
}

static bool is_day(const struct crontab_when *w, const struct tm *tm)
{
	bool day = crontab_has(w->days, tm->tm_mday), weekday = crontab_has(w->weekdays, tm->tm_wday);

	return crontab_has(w->months, tm->tm_mon + 1) && (w->both_days ? day && weekday : day || weekday);
}

int64_t crontab_interval_us(const struct crontab_when *w)
{
	int64_t days = 0,
		starts = __builtin_popcountll((uint64_t)w->minutes) * (int64_t)__builtin_popcountll((uint64_t)w->hours);

	for (int i = 0; i < DAYS; i++) {
		time_t t = EPOCH_2000 + i * INT64_C(86400);
		struct tm tm;

		gmtime_r(&t, &tm);
		days += is_day(w, &tm);
	}
	return days * starts > 0 ? DAYS * 24 * 60 * MINUTE_US / (days * starts) : 0;
}

int64_t *crontab_ticks(const struct crontab_when *w, int64_t begin_us, int64_t end_us, size_t *n)
{
	int64_t first = (begin_us + MINUTE_US - 1) / MINUTE_US, last = end_us / MINUTE_US;
	int64_t *ticks = malloc((last > first ? (size_t)(last - first) : 1) * sizeof(*ticks));

	*n = 0;
	tzset();
	for (int64_t minute = first; ticks && minute < last; minute++) {
		time_t t = EPOCH_2000 + minute * 60;
		struct tm tm;

		if (localtime_r(&t, &tm) && crontab_has(w->minutes, tm.tm_min) && crontab_has(w->hours, tm.tm_hour) &&
		    is_day(w, &tm))
			ticks[(*n)++] = minute * MINUTE_US - begin_us;
	}
	return ticks;
}
