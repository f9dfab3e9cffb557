/* SPDX-License-Identifier: MIT */
#include "advice.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define LINES_MAX 16 /* lines of one runner are tried up to that */
#define MORE 4       /* of each kind, how many settings have more runners than the recorded past needs */
#define CNT_MAX 10000
#define CNT_COST 1.05 /* waits with a cnt may be so much longer than without */

static const int64_t intervals[] = { 60 * MINUTE, 30 * MINUTE, 20 * MINUTE, 15 * MINUTE, 10 * MINUTE,
				     5 * MINUTE,  3 * MINUTE,  2 * MINUTE,  MINUTE };
#define INTERVALS (sizeof(intervals) / sizeof(intervals[0]))

/* ---- waits ------------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int64_t advice_quantile_us(const struct forecast_job *jobs, size_t len, int group, double share)
{
	int64_t *waits = malloc((len + 1) * sizeof(*waits)), us = -1;
	size_t n = 0, at;

	for (size_t i = 0; waits && i < len; i++)
		if (group < 0 || jobs[i].group == group)
			waits[n++] = jobs[i].wait_us < 0 ? ADVICE_NEVER : jobs[i].wait_us;
	if (n > 0) {
		qsort(waits, n, sizeof(*waits), ascending);
		at = (size_t)ceil(share * (double)n);
		us = waits[at > 0 ? at - 1 : 0];
	}
	free(waits);
	return us;
}

static int groups_of(const struct advice_history *h)
{
	int n = 0;

	for (size_t i = 0; i < h->len; i++)
		if (h->jobs[i].group >= n)
			n = h->jobs[i].group + 1;
	return n;
}

int64_t advice_worst_us(const struct advice_history *h, double share)
{
	int groups = groups_of(h);
	size_t *n = calloc((size_t)groups + 1, sizeof(*n));
	int64_t worst = advice_quantile_us(h->jobs, h->len, -1, share);

	for (size_t i = 0; n && i < h->len; i++)
		n[h->jobs[i].group]++;
	for (int g = 0; n && groups > 1 && g < groups && worst >= 0; g++)
		if (n[g] >= ADVICE_GROUP_MIN) {
			int64_t us = advice_quantile_us(h->jobs, h->len, g, share);

			worst = us < 0 || us > worst ? us : worst;
		}
	worst = n ? worst : -1;
	free(n);
	return worst;
}

/* ---- what a setting can do -------------------------------------------------------------------- */

double advice_served(const struct advice_setting *s, int64_t run_us, int64_t start_us, int64_t between_us)
{
	double each = (double)(run_us + between_us > 0 ? run_us + between_us : 1), rate = s->runners / each;

	if (s->interval_us > 0 && s->cnt > 0) {
		/* Starts that find the copy before at work are skipped. */
		double run = (double)start_us + ceil((double)s->cnt / s->runners) * each,
		       interval = (double)s->interval_us;
		double gated = (double)s->cnt / (ceil(run / interval) * interval);

		rate = gated < rate ? gated : rate;
	}
	return rate * s->lines * (double)SECOND;
}

static bool serves(const struct advice_wanted *w, const struct advice_setting *s)
{
	double served = advice_served(s, w->run_us, w->start_us, w->between_us);

	return served * ADVICE_LOAD_MAX >= w->rate && served >= w->peak_rate;
}

int advice_replay(const struct advice_history *h, const struct advice_setting *s, const struct advice_wanted *w,
		  struct forecast_result *result)
{
	struct forecast_line lines[FORECAST_LINES];
	int64_t last = h->len > 0 ? h->jobs[h->len - 1].ready_us : 0;
	struct forecast_rule rule = { .start_us = w->start_us,
				      .between_us = w->between_us,
				      .seed = w->seed,
				      .end_us = last + last / 4 + 10 * s->interval_us + w->within_us };

	if (s->lines < 1 || s->lines > FORECAST_LINES)
		return -2;
	for (int i = 0; i < s->lines; i++)
		lines[i] = (struct forecast_line){ 0, s->interval_us, s->cnt, s->runners };
	return forecast_run(&rule, lines, (size_t)s->lines, h->jobs, h->len, result);
}

/* ---- histories made up ------------------------------------------------------------------------ */

static size_t times(double factor, uint64_t *random)
{
	double whole = floor(factor);

	return (size_t)whole + ((double)(random_next(random) >> 11) * 0x1p-53 < factor - whole);
}

static bool advice_put(struct advice_history *to, size_t *cap, const struct forecast_job *job, int64_t ready_us,
		       size_t n)
{
	if (to->len + n > *cap) {
		size_t more = 2 * *cap + n;
		struct forecast_job *jobs = realloc(to->jobs, more * sizeof(*jobs));

		if (!jobs)
			return false;
		to->jobs = jobs;
		*cap = more;
	}
	while (n-- > 0) {
		to->jobs[to->len] = *job;
		to->jobs[to->len++].ready_us = ready_us;
	}
	return true;
}

static int begin_copy(struct advice_history *copy, const struct advice_history *of, size_t *cap)
{
	*cap = of->len + 1;
	*copy = (struct advice_history){ .jobs = malloc(*cap * sizeof(*copy->jobs)), .begin_us = of->begin_us };
	return copy->jobs ? 0 : -1;
}

static int advice_end_copy(struct advice_history *copy, bool good)
{
	if (good)
		return 0;
	free(copy->jobs);
	*copy = (struct advice_history){ 0 };
	return -1;
}

int advice_scale(const struct advice_history *h, double factor, uint64_t seed, struct advice_history *copy)
{
	size_t cap;
	bool good = begin_copy(copy, h, &cap) == 0;

	for (size_t i = 0; good && i < h->len; i++)
		good = advice_put(copy, &cap, &h->jobs[i], h->jobs[i].ready_us, times(factor, &seed));
	return advice_end_copy(copy, good);
}

static int64_t advice_apart(int64_t a, int64_t b, int64_t round)
{
	int64_t d = llabs(a - b) % round;

	return d < round - d ? d : round - d;
}

/* 1 January 2000 was a Saturday. */
static bool weekend(int64_t us)
{
	return us / DAY % 7 < 2;
}

struct blocks {
	int64_t begin_us, length_us, n;
};

/* May j stand for k? */
static bool alike(const struct blocks *b, int64_t k, int64_t j)
{
	int64_t hours_apart;

	if (b->length_us != HOUR)
		return llabs(k - j) <= 2;
	hours_apart = advice_apart(k, j, 24);
	if (b->n < 3 * 24)
		return hours_apart <= 1;
	return hours_apart == 0 && weekend(b->begin_us + k * HOUR) == weekend(b->begin_us + j * HOUR);
}

/* One of those, each as likely. */
static int64_t advice_draw(const struct blocks *b, int64_t k, uint64_t *random)
{
	int64_t drawn = k;
	uint64_t n = 0;

	for (int64_t j = 0; j < b->n; j++)
		if (alike(b, k, j) && random_next(random) % ++n == 0)
			drawn = j;
	return drawn;
}

int advice_resample(const struct advice_history *h, double factor, uint64_t seed, struct advice_history *copy)
{
	int64_t span = h->len > 0 ? h->jobs[h->len - 1].ready_us + 1 : 1;
	struct blocks b = { .begin_us = h->begin_us, .length_us = span >= DAY ? HOUR : span / 24 + 1 };
	size_t cap, *first;
	bool good = begin_copy(copy, h, &cap) == 0;

	b.n = (span + b.length_us - 1) / b.length_us;
	first = good ? calloc((size_t)b.n + 1, sizeof(*first)) : NULL;
	good = first;
	for (int64_t k = 0, i = 0; good && k <= b.n; k++) {
		while (i < (int64_t)h->len && h->jobs[i].ready_us < k * b.length_us)
			i++;
		first[k] = (size_t)i;
	}
	for (int64_t k = 0; good && k < b.n; k++) {
		int64_t j = advice_draw(&b, k, &seed);

		for (size_t i = first[j]; good && i < first[j + 1]; i++)
			good = advice_put(copy, &cap, &h->jobs[i], h->jobs[i].ready_us + (k - j) * b.length_us,
					  times(factor, &seed));
	}
	free(first);
	return advice_end_copy(copy, good);
}

/* ---- the search ------------------------------------------------------------------------------- */

struct search {
	const struct advice_wanted *wanted;
	const struct advice_history *histories;
	size_t n;
	int replays;
	int rc; /* what went wrong */
};

/* The longest wait of that share in any history; sum may be NULL. */
static int64_t waited_us(struct search *s, const struct advice_setting *setting, struct forecast_result *sum)
{
	int64_t worst = 0;

	for (size_t i = 0; i < s->n && s->rc == 0; i++) {
		struct forecast_result r = { 0 };
		int64_t us;

		if (s->wanted->go_on && !s->wanted->go_on(s->wanted->go_on_data)) {
			s->rc = -3;
			break;
		}
		s->rc = advice_replay(&s->histories[i], setting, s->wanted, &r);
		s->replays++;
		us = s->rc == 0 ? advice_worst_us(&s->histories[i], s->wanted->share) : 0;
		if (us < 0)
			s->rc = -1;
		worst = us > worst ? us : worst;
		if (sum) {
			sum->runs += r.runs;
			sum->skipped += r.skipped;
			sum->left += r.left;
			sum->busy_us += r.busy_us;
			sum->most = r.most > sum->most ? r.most : sum->most;
		}
	}
	return worst;
}

static bool advice_fits(struct search *s, const struct advice_setting *setting, int64_t limit_us)
{
	return s->rc == 0 && waited_us(s, setting, NULL) <= limit_us;
}

/* The second longest wait of all rounds; ends as soon as that is known to be longer than limit_us. */
static int64_t bound_us(struct search *s, const struct advice_setting *setting, int64_t limit_us)
{
	int64_t longest = 0, second = 0;

	for (int round = 0; round < ADVICE_ROUNDS && s->rc == 0 && second <= limit_us; round++) {
		int64_t us = 0;

		for (size_t i = 0; i < s->n && s->rc == 0; i++) {
			struct advice_history made;
			struct search one = { .wanted = s->wanted, .histories = &made, .n = 1 };
			int64_t here;

			s->rc = advice_resample(&s->histories[i], s->wanted->headroom,
						random_mix(s->wanted->seed + 977 * (uint64_t)round + i + 1), &made);
			if (s->rc < 0)
				break;
			here = waited_us(&one, setting, NULL);
			us = here > us ? here : us;
			s->replays++;
			s->rc = one.rc;
			free(made.jobs);
		}
		if (us > longest) {
			second = longest;
			longest = us;
		} else if (us > second) {
			second = us;
		}
	}
	return second;
}

static bool holds(struct search *s, const struct advice_setting *setting, int64_t limit_us)
{
	return s->rc == 0 && bound_us(s, setting, limit_us) <= limit_us;
}

static struct advice_setting of_places(int64_t interval_us, bool lines, int places)
{
	return (struct advice_setting){ interval_us, 0, lines ? 1 : places, lines ? places : 1 };
}

/* The fewest places that do for what was, from least on; 0: none. */
static int fewest(struct search *s, int64_t interval_us, bool lines, int least, int most)
{
	int low = least - 1, high = least;
	struct advice_setting setting;

	if (least > most)
		return 0;
	for (;;) {
		setting = of_places(interval_us, lines, high);
		if (advice_fits(s, &setting, s->wanted->within_us))
			break;
		if (high == most || s->rc < 0)
			return 0;
		low = high;
		high = 2 * high < most ? 2 * high : most;
	}
	while (high - low > 1) {
		int middle = low + (high - low) / 2;

		setting = of_places(interval_us, lines, middle);
		if (advice_fits(s, &setting, s->wanted->within_us))
			high = middle;
		else
			low = middle;
	}
	return s->rc < 0 ? 0 : high;
}

static int by_size(const void *a, const void *b)
{
	const struct advice_setting *x = a, *y = b;
	int places = x->runners * x->lines - y->runners * y->lines;

	if (places != 0)
		return places;
	if (x->interval_us != y->interval_us)
		return x->interval_us < y->interval_us ? 1 : -1;
	return x->lines - y->lines;
}

/* Those of an interval that do for what was, and some larger ones. */
static size_t candidates(struct search *s, int64_t interval_us, int least, struct advice_setting *found)
{
	int most = s->wanted->runners_max, one = fewest(s, interval_us, false, least, most), many = 0;
	size_t n = 0;

	/* Many lines are worth their trouble where they do with less: a line looks again when an attempt has ended,
	 * another at its tick. */
	if (interval_us > 0 && one != least)
		many = fewest(s, interval_us, true, least, most < LINES_MAX ? most : LINES_MAX);
	for (int lines = 0; lines <= 1; lines++) {
		int base = lines ? many : one;
		const int more[MORE] = { 0, 1, 2, base };

		if (base == 0 || (lines && one > 0 && many >= one))
			continue;
		for (int i = 0; i < MORE; i++)
			if (base + more[i] <= (lines ? LINES_MAX : most) && base + more[i] <= most)
				found[n++] = of_places(interval_us, lines != 0, base + more[i]);
	}
	return n;
}

static int64_t limit_us(const struct search *s, int64_t us)
{
	int64_t longer = (int64_t)(CNT_COST * (double)us);

	return longer < s->wanted->within_us ? longer : s->wanted->within_us;
}

/*
 * The smallest cnt that suffices, with a margin; 0: none does. A job that a run leaves waits for another interval.
 * Without the margin, slightly more arrivals would double the wait. without: the same setting with cnt 0.
 */
static int64_t least_cnt(struct search *s, const struct advice *without)
{
	struct advice_setting setting = without->setting;
	int64_t most = without->result.most, low = 0, high = most < CNT_MAX ? most : CNT_MAX;
	int64_t predicted = limit_us(s, without->predicted_us), bound = limit_us(s, without->bound_us);

	while (high - low > 1) {
		setting.cnt = low + (high - low) / 2;
		if (serves(s->wanted, &setting) && advice_fits(s, &setting, predicted))
			high = setting.cnt;
		else
			low = setting.cnt;
	}
	for (setting.cnt = (int64_t)ceil((double)high * s->wanted->headroom); setting.cnt <= 2 * most + 1 && s->rc == 0;
	     setting.cnt += setting.cnt / 4 + 1)
		if (serves(s->wanted, &setting) && advice_fits(s, &setting, predicted) && holds(s, &setting, bound))
			return setting.cnt;
	return 0;
}

static bool are_valid(const struct advice_wanted *w, const struct advice_history *histories, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (histories[i].len == 0 || histories[i].begin_us < 0)
			return false;
		for (size_t k = 0; k < histories[i].len; k++)
			if (histories[i].jobs[k].group < 0 || histories[i].jobs[k].group > INT32_MAX - 1 ||
			    histories[i].jobs[k].ready_us > FORECAST_MAX_US / 2)
				return false;
	}
	return n > 0 && w->share > 0 && w->share < 1 && w->within_us >= 0 && w->within_us <= FORECAST_MAX_US / 8 &&
	       w->headroom >= 1 && w->headroom <= 100 && w->runners_max >= 1 && w->runners_max <= FORECAST_RUNNERS &&
	       w->rate >= 0 && w->peak_rate >= 0;
}

static void advice_judge_setting(struct search *s, const struct advice_setting *setting, struct advice *a)
{
	a->setting = *setting;
	a->result = (struct forecast_result){ 0 };
	a->predicted_us = waited_us(s, setting, &a->result);
	a->bound_us = bound_us(s, setting, ADVICE_NEVER);
	if (a->bound_us < a->predicted_us)
		a->bound_us = a->predicted_us; /* what was is one of those that can be */
	a->replays = s->replays;
}

int advice_judge(const struct advice_wanted *w, const struct advice_setting *setting,
		 const struct advice_history *histories, size_t n, struct advice *a)
{
	struct search s = { .wanted = w, .histories = histories, .n = n };

	*a = (struct advice){ .answer = ADVICE_TOO_LATE };
	if (!are_valid(w, histories, n))
		return -2;
	advice_judge_setting(&s, setting, a);
	if (a->predicted_us <= w->within_us)
		a->answer = ADVICE_FOUND;
	return s.rc;
}

/* The smallest of them that holds. False: none does, and the largest is in *best. */
static bool smallest(struct search *s, struct advice_setting *found, size_t len, struct advice_setting *best)
{
	qsort(found, len, sizeof(found[0]), by_size);
	for (size_t i = 0; i < len; i++) {
		*best = found[i];
		if (holds(s, best, s->wanted->within_us))
			return true;
	}
	return false;
}

int advice_seek(const struct advice_wanted *w, const struct advice_history *histories, size_t n, struct advice *a)
{
	struct search s = { .wanted = w, .histories = histories, .n = n };
	struct advice_setting found[INTERVALS * 2 * MORE], best = { .runners = w->runners_max, .lines = 1 };
	enum advice_answer answer = ADVICE_TOO_LATE;
	size_t len = 0;
	int least = 1;

	*a = (struct advice){ .answer = answer };
	if (!are_valid(w, histories, n))
		return -2;
	while (least <= w->runners_max && !serves(w, &(struct advice_setting){ .runners = least, .lines = 1 }))
		least++;
	/* Jobs that come at any time wait for a tick so long that a share of them waits that share of the interval. */
	for (size_t i = 0; i < INTERVALS && !w->service; i++)
		if (w->share * (double)intervals[i] <= (double)w->within_us)
			len += candidates(&s, intervals[i], least, found + len);
	if (smallest(&s, found, len, &best) || smallest(&s, found, candidates(&s, 0, least, found), &best))
		answer = ADVICE_FOUND;
	else if (least > w->runners_max)
		answer = ADVICE_TOO_MUCH;
	advice_judge_setting(&s, &best, a);
	if (answer == ADVICE_FOUND && best.interval_us > 0) {
		best.cnt = least_cnt(&s, a);
		if (best.cnt > 0 && s.rc == 0)
			advice_judge_setting(&s, &best, a);
	}
	a->answer = answer;
	a->replays = s.replays;
	return s.rc;
}
