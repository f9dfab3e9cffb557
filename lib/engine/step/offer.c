/* SPDX-License-Identifier: MIT */
#include "engine/step/offer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (3600 * NS_PER_S) /* an unchanged catalog is sent again after that */
#define AFTER_FAILURE_NS (600 * NS_PER_S)
#define FUNCTIONS_MAX 10000 /* of one place */

/* The server would refuse a text that is not UTF-8, and the registration with it. */
static size_t add_path(char place[OFFER_PLACE_MAX], size_t len, const char *path)
{
	char shown[VISIBLE_MAX];

	while (*path && len + VISIBLE_MAX < OFFER_PLACE_MAX) {
		path += visible_char(path, shown);
		len += (size_t)snprintf(place + len, OFFER_PLACE_MAX - len, "%s", shown);
	}
	place[len] = '\0';
	return len;
}

void offer_set_up(struct offer *o, const struct runner_setup *r)
{
	size_t len = 0;

	len = add_path(o->place, len, r->plugin_dir ? r->plugin_dir : "");
	if (config_has_functions(r->config) && config_path(r->config))
		add_path(o->place, add_path(o->place, len, " "), config_path(r->config));
}

/* FNV-1a. A catalog with another hash is another one. Nobody gains by two catalogs with the same hash. */
static uint64_t add_hash(uint64_t h, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
	return h;
}

static int64_t catalog_hash(const struct runner_function *f, size_t n)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < n; i++) {
		h = add_hash(h, f[i].name, strlen(f[i].name) + 1);
		h = add_hash(h, f[i].plugin, strlen(f[i].plugin) + 1);
		h = add_hash(h, &f[i].timeout_ms, sizeof(f[i].timeout_ms));
		h = add_hash(h, &f[i].max_attempts, sizeof(f[i].max_attempts));
	}
	return h ? (int64_t)h : 1; /* 0: none is known */
}

/* The functions here, and behind them those that are refused, with -1 attempts. */
static struct runner_function *all_of(const struct pool *pool, size_t n, size_t clashes)
{
	struct runner_function *all = malloc((n + clashes + 1) * sizeof(*all));

	for (size_t i = 0; all && i < n; i++)
		all[i] = pool->functions.served[i];
	for (size_t i = 0; all && i < clashes; i++)
		all[n + i] = pool->functions.clashes[i];
	return all;
}

static int send_offer(const struct offer *offer, struct pg *pg, const char *host, int64_t catalog,
		      const struct runner_function *f, size_t n, struct deferred_error *err)
{
	struct store_offer o = {
		.host = host,
		.place = offer->place,
		.catalog = catalog,
		.len = n,
		.fn = malloc((n + 1) * sizeof(*o.fn)),
		.plugin = malloc((n + 1) * sizeof(*o.plugin)),
		.timeout_ms = malloc((n + 1) * sizeof(*o.timeout_ms)),
		.max_attempts = malloc((n + 1) * sizeof(*o.max_attempts)),
	};
	int rc = o.fn && o.plugin && o.timeout_ms && o.max_attempts
			 ? 0
			 : error_set(err, DEFERRED_ENOMEM, "offer", "out of memory");

	for (size_t i = 0; rc == 0 && i < n; i++) {
		o.fn[i] = f[i].name;
		o.plugin[i] = f[i].plugin;
		o.timeout_ms[i] = f[i].timeout_ms;
		o.max_attempts[i] = f[i].max_attempts;
	}
	if (rc == 0)
		rc = store_offer(pg, &o, err);
	free(o.fn);
	free(o.plugin);
	free(o.timeout_ms);
	free(o.max_attempts);
	return rc;
}

void offer_forget(struct offer *o)
{
	o->again_ns = 0;
}

int offer_run(struct offer *o, struct pg *pg, const struct pool *pool, const char *host, uint64_t now,
	      struct deferred_error *err)
{
	const struct functions *here = &pool->functions;
	size_t n = here->served_len < FUNCTIONS_MAX ? here->served_len : FUNCTIONS_MAX;
	size_t clashes = here->clashes_len < FUNCTIONS_MAX - n ? here->clashes_len : FUNCTIONS_MAX - n;
	bool compared = o->functions == pool->functions.served;
	uint64_t pause_ns = AGAIN_NS;
	struct runner_function *all;
	int64_t catalog;
	int rc = 0;

	if (!pool->functions.known || (compared && now < o->again_ns))
		return 0;
	all = all_of(pool, n, clashes);
	if (!all)
		return 0;
	catalog = catalog_hash(all, n + clashes);
	/* The first time, the registration has returned the catalog that the database has. */
	if (compared || catalog != o->catalog) {
		rc = send_offer(o, pg, host, catalog, all, n + clashes, err) == 0;
		if (rc > 0)
			o->catalog = catalog;
		else
			pause_ns = AFTER_FAILURE_NS;
	}
	free(all);
	if (pause_ns == AFTER_FAILURE_NS && pg_broken(pg))
		return DEFERRED_ELOST;
	if (pause_ns == AFTER_FAILURE_NS)
		log_error(LOG_L_WARNING, err, "functions: cannot store what this worker offers, trying again in %d s",
			  (int)(pause_ns / NS_PER_S));
	o->functions = pool->functions.served;
	o->again_ns = now + pause_ns;
	return rc;
}
