/* SPDX-License-Identifier: MIT */
#include "engine/state.h"

#include "base/log.h"
#include "base/text/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (3600 * NS_PER_S) /* what has not changed is said again after that */
#define AFTER_FAILURE_NS (600 * NS_PER_S)
#define FUNCTIONS_MAX 10000 /* of one place */

/* What is not UTF-8 the server would refuse, and registration with it. */
static size_t add_path(char place[WORKER_PLACE_MAX], size_t len, const char *path)
{
	char shown[VISIBLE_MAX];

	while (*path && len + VISIBLE_MAX < WORKER_PLACE_MAX) {
		path += visible_char(path, shown);
		len += (size_t)snprintf(place + len, WORKER_PLACE_MAX - len, "%s", shown);
	}
	place[len] = '\0';
	return len;
}

void worker_offer_set_up(struct worker *w)
{
	const struct runner_setup *r = w->setup->runners;
	size_t commands, len = 0;

	config_commands(r->config, &commands);
	len = add_path(w->offer.place, len, r->plugin_dir ? r->plugin_dir : "");
	if (commands > 0 && config_path(r->config))
		add_path(w->offer.place, add_path(w->offer.place, len, " "), config_path(r->config));
}

/* FNV-1a. What has another hash is another catalog; nobody gains by two that have the same. */
static uint64_t hash(uint64_t h, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
	return h;
}

static int64_t hash_of(const struct runner_function *f, size_t n)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < n; i++) {
		h = hash(h, f[i].name, strlen(f[i].name) + 1);
		h = hash(h, f[i].plugin, strlen(f[i].plugin) + 1);
		h = hash(h, &f[i].timeout_ms, sizeof(f[i].timeout_ms));
		h = hash(h, &f[i].max_attempts, sizeof(f[i].max_attempts));
	}
	return h ? (int64_t)h : 1; /* 0: none is known */
}

/* What is here, and behind it what is refused, with -1 attempts. */
static struct runner_function *all_of(const struct pool *pool, size_t n, size_t clashes)
{
	struct runner_function *all = malloc((n + clashes + 1) * sizeof(*all));

	for (size_t i = 0; all && i < n; i++)
		all[i] = pool->functions[i];
	for (size_t i = 0; all && i < clashes; i++)
		all[n + i] = pool->clashes[i];
	return all;
}

static int tell(struct worker *w, int64_t catalog, const struct runner_function *f, size_t n,
		struct deferred_error *err)
{
	struct store_offer o = {
		.host = w->setup->host,
		.place = w->offer.place,
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
		rc = store_offer(w->pg, &o, err);
	free(o.fn);
	free(o.plugin);
	free(o.timeout_ms);
	free(o.max_attempts);
	return rc;
}

void worker_offer(struct worker *w, uint64_t now)
{
	struct deferred_error err = { 0 };
	size_t n = w->pool.functions_len < FUNCTIONS_MAX ? w->pool.functions_len : FUNCTIONS_MAX;
	size_t clashes = w->pool.clashes_len < FUNCTIONS_MAX - n ? w->pool.clashes_len : FUNCTIONS_MAX - n;
	struct runner_function *all;
	int64_t catalog;

	if (!w->pool.functions_known || (w->offer.functions == w->pool.functions && now < w->offer.again_ns))
		return;
	all = all_of(&w->pool, n, clashes);
	if (!all)
		return;
	n += clashes;
	catalog = hash_of(all, n);
	/* The first time, registration has told what stands there. */
	if (w->offer.functions == w->pool.functions || catalog != w->offer.known) {
		if (tell(w, catalog, all, n, &err) < 0 && pg_broken(w->pg)) {
			worker_lose_connection(w, &err, now);
			goto done;
		}
		if (err.code) {
			log_line(LOG_L_WARNING,
				 "cannot say which functions are here, which `deferred functions` lists: %s",
				 err.message);
			w->offer.functions = w->pool.functions;
			w->offer.again_ns = now + AFTER_FAILURE_NS;
			goto done;
		}
		w->offer.known = catalog;
		plan_delayed(&w->plan); /* jobs of functions that no worker had may be ready now */
	}
	w->offer.functions = w->pool.functions;
	w->offer.again_ns = now + AGAIN_NS;
done:
	free(all);
}
