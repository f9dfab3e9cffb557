/* SPDX-License-Identifier: MIT */
/*
 * web_cache - answers that are made once for all who may see the same.
 *
 * Pages of browsers that refresh them are kept for two seconds, so 50 open pages cost the database what one does. The
 * checks of doctor and the advice are kept for a minute, metrics for 5 s. The key of an answer names the page and the
 * rights for which it was made.
 *
 *     if (web_cache_get(cache, key, json, wait_ms, &body) == WEB_CACHE_MAKE) {
 *             struct web_cache_answer a = { .claimed = true, .keep_ms = 60000 };
 *             ... write a.form[0], HTML, and a.form[1], JSON ...
 *             web_cache_put(cache, key, &a);
 *     }
 */
#ifndef WEB_CACHE_H
#define WEB_CACHE_H

#include "base/error.h"
#include "http/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define WEB_CACHE_PAGE_MS 1900 /* how old a page may be; page.js asks a little less often */

struct web_cache_answer {
	struct buf form[2];
	bool claimed;      /* web_cache_get() said to make it */
	int keep_ms;       /* 0: there is no answer, and the next one who asks is to make it */
	uint64_t began_ns; /* when it was begun, of a page that web_cache_drop_pages() drops; 0: it stays */
};

struct web_cache;
struct web_cache *web_cache_new(struct deferred_error *err); /* NULL: no memory */
void web_cache_free(struct web_cache *c);                    /* waits for the thread */

/*
 * WEB_CACHE_THERE: that form of the answer was added to `to`. WEB_CACHE_MAKE: the caller has claimed it, and has
 * to call web_cache_put(). WEB_CACHE_BUSY: another has been making it for wait_ms, or there is no room.
 */
#define WEB_CACHE_ONLY_LOOK -1 /* as wait_ms: claim nothing */
enum web_cache_found { WEB_CACHE_THERE, WEB_CACHE_MAKE, WEB_CACHE_BUSY };
enum web_cache_found web_cache_get(struct web_cache *c, const char *key, int form, int wait_ms, struct buf *to);

/* The buffers are taken. One that was not claimed is kept unless another is making one just now. */
void web_cache_put(struct web_cache *c, const char *key, struct web_cache_answer *a);

/* An action was done: pages that were begun before count no longer. */
void web_cache_drop_pages(struct web_cache *c);

/* Free what is old. To be called every second or so. */
void web_cache_tick(struct web_cache *c);

/* Call work() in a thread of its own, one at a time and with lower priority than the threads that serve pages. Wait for
 * its end for at most wait_ms. False: there is no thread. */
bool web_cache_work(struct web_cache *c, void (*work)(void *data), void *data, int wait_ms);

/* Is the program ending, so that the work is to be given up? */
bool web_cache_is_ending(struct web_cache *c);

#endif
