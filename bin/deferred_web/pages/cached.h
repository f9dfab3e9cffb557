/* SPDX-License-Identifier: MIT */
/*
 * cached - pages whose content is made at most once a minute, in the cache of answers. It is made before the
 * transaction of the page, in transactions of its own. That of the page then checks that the visitor may see it.
 */
#ifndef CACHED_H
#define CACHED_H

#include "page/page.h"
#include "server/web_cache.h"

#define CACHED_MS 60000
#define CACHED_FAILED_MS 5000

/* Is the visitor a viewer? For others nothing is made. */
bool cached_may_see(struct web_request *r);

/* Read the answer into r->cached, in the form of this request. Where there is none, cached_claim() is true. Then the
 * caller has to make it and to call web_cache_put(). */
bool cached_claim(struct web_request *r, const char *key);
void cached_get(struct web_request *r, const char *key);

/* Begin an answer with the time; and say instead why there is none, for a while. */
void cached_begin(struct web_cache_answer *a);
void cached_fail(struct web_cache_answer *a, const char *text);

/* The page, from r->cached. If that is empty, it says that the answer is being made, and is loaded again. */
int cached_page(struct web_request *r, const char *hint);

#endif
