/* SPDX-License-Identifier: MIT */
/* web_request - what all of deferred_web shares: its settings, and one request from its first byte to its answer. */
#ifndef WEB_REQUEST_H
#define WEB_REQUEST_H

#include "base/cause.h"
#include "guard.h"
#include "http/access_log.h"
#include "http/budget.h"
#include "http/crypto.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/web.h"
#include "store/why.h"

#include <pthread.h>

enum web_auth { WEB_POSTGRES, WEB_PROXY, WEB_NONE, WEB_PEER }; /* in the order of the setting's words */

struct web_pool;
struct web_cache;

struct web {
	/* Settings. Borrowed; NULL: not set. */
	const char *conninfo, *hosts, *proxies, *users, *hide_params, *timezone;
	const char *only; /* the one path that is served, to programs: errors are JSON. NULL: all pages are */
	enum web_auth auth;
	bool read_only;
	unsigned char key[GUARD_KEY_BYTES]; /* of this process */
	struct access_log *log;             /* NULL: none */
	struct web_pool *pool;
	struct web_cache *cache;
	pthread_mutex_t missed_lock;
	struct store_why_missed missed;
	_Atomic uint64_t fold_ns; /* no page folds the log into figures before that */
};

struct web_request;

/* A page, or an action. */
struct web_route {
	const char *path; /* in it # stands for a number, * for a name */
	const char *name; /* for the log */
	const char *title;
	/* Writes the answer, inside a transaction. Returns 0 or the failure of the database. */
	int (*answer)(struct web_request *r, struct deferred_error *err);
	void (*before)(
		struct web_request *r);       /* before that transaction, with transactions of its own; NULL: nothing */
	bool action;                          /* by POST */
	void (*after)(struct web_request *r); /* the same behind an action that was done */
	bool reloads;                         /* a browser without JavaScript reloads it: it has no form to fill in */
	bool long_form;                       /* params are typed into it */
};

struct web_request {
	struct web *web;
	struct arena arena;
	struct request http;
	struct reply reply;
	struct budget_hold hold;
	bool awaits_body, judged;
	char id[CRYPTO_GUID_SIZE];
	int64_t began_us;
	uint64_t began_ns;
	const char *query; /* as it came, without "?" */

	const struct web_route *route;
	bool json;        /* the path ended in .json */
	int64_t number;   /* of the path */
	const char *name; /* of the path */
	char user[GUARD_NAME_SIZE];
	const char *password;
	const char *role; /* that the session acts as; NULL: that of the login */
	char address[64]; /* of the client; "": a socket of this machine */
	struct pg *pg;
	uint64_t pg_born_ns; /* when it logged in */
	struct store_web_me me;
	uint64_t me_ns;       /* when that was read; 0: not yet */
	struct buf cached;    /* of web_cache.h, for the page of it */
	struct cause *causes; /* why jobs wait, or this one does; in the arena */
	struct cause *bare;   /* the same for visitors to whom some functions are hidden; NULL: nothing is */
	size_t causes_len, bare_len;
	struct pg_result *queues; /* rows of admin_status_queues.sql that these causes came from; NULL: none */

	/* Of the pool: numbers for name and password, for name and address, and for those that share its threads. */
	uint64_t login, pair, group;
	uint64_t submitted_ns, turn_ns; /* turn_ns: not served before */
	size_t before;                  /* requests of its group that were there when it came */
	void (*wake)(void *data);
	void *wake_data;
	struct web_request *next;
};

#endif
