/* SPDX-License-Identifier: MIT */
/* web - what all of deferred_web shares: what it was told, and one visit, from the first byte of a request to the last
 * of its answer. */
#ifndef WEB_H
#define WEB_H

#include "base/cause.h"
#include "guard.h"
#include "http/access_log.h"
#include "http/budget.h"
#include "http/crypto.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/server.h"
#include "store/web.h"
#include "store/why.h"

#include <pthread.h>

enum web_auth { WEB_POSTGRES, WEB_PROXY, WEB_NONE, WEB_PEER }; /* in the order of the setting's words */

struct desk;
struct kept;
struct snapshots;

struct web {
	/* Settings. Borrowed; NULL: not set. */
	const char *conninfo, *hosts, *proxies, *users, *hide_params, *timezone;
	const char *only; /* the one path that is served, and to programs: errors are JSON; NULL: all pages are */
	enum web_auth auth;
	bool read_only;
	unsigned char key[GUARD_KEY_BYTES]; /* of this process */
	struct access_log *log;             /* NULL: none */
	struct desk *desk;
	struct kept *kept;
	struct snapshots *snapshots;
	pthread_mutex_t missed_lock;
	struct store_why_missed missed;
	_Atomic uint64_t fold_ns; /* figures are not brought up to now before */
};

struct visit;

/* A page, or an action. */
struct route {
	const char *path; /* in it # stands for a number, * for a name */
	const char *name; /* for the log */
	const char *title;
	/* Called inside a transaction. Writes the answer; a failure of the database is returned. */
	int (*run)(struct visit *v, struct deferred_error *err);
	bool action;                     /* by POST */
	void (*before)(struct visit *v); /* what makes transactions of its own; NULL: nothing */
	void (*after)(struct visit *v);  /* the same of an action that was done */
	bool reloads;   /* without JavaScript it is loaded anew: there is nothing on it that people fill in */
	bool long_form; /* params are typed into it */
};

/* A place in a page that differs between people who otherwise see the same. */
struct visit_hole {
	enum { HOLE_USER, HOLE_TOKEN } what;
	size_t at, len;
};
#define VISIT_HOLES_MAX 16

struct visit {
	struct web *web;
	struct arena arena;
	struct request request;
	struct reply reply;
	struct budget_hold hold;
	bool awaits_body, judged;
	char id[CRYPTO_GUID_SIZE];
	int64_t began_us;
	uint64_t began_ns;
	const char *query; /* as it came, without "?" */

	const struct route *route;
	bool json;        /* the path ended in .json */
	int64_t number;   /* of the path */
	const char *name; /* of the path */
	char user[GUARD_NAME_SIZE];
	const char *password, *role;
	char address[64]; /* of who asks; "": by a socket of this machine */
	struct pg *pg;
	uint64_t pg_born_ns; /* when it logged in */
	struct store_web_me me;
	uint64_t me_ns; /* when that was asked for; 0: not yet */
	struct visit_hole holes[VISIT_HOLES_MAX];
	size_t holes_len;        /* beyond the maximum: there were more */
	struct snapshot *making; /* others wait for this page; NULL: nobody */
	struct cause *causes;    /* why jobs wait, or this one does; in the arena */
	struct cause *bare;      /* the same for visitors to whom some functions are hidden; NULL: nothing is */
	size_t causes_len, bare_len;
	struct pg_result *queues; /* rows of admin_status_queues.sql, where these causes came of them; else NULL */

	/* Of the desk. */
	uint64_t login, pair,
		group; /* numbers for name and password, name and address, and those it shares threads with */
	uint64_t submitted_ns, turn_ns; /* turn_ns: not served before */
	size_t before;                  /* visits of its group that were there when it came */
	void (*wake)(void *data);
	void *wake_data;
	struct visit *next;
};

extern const struct server_app visit_app;

/* Run by a thread of the desk, where it may wait: v->reply is the answer. */
void visit_run(struct visit *v);

/* It is not run at all: names are tried too often, or there is too much to do. */
void visit_late(struct visit *v, bool often);

/* The answer is an error: status and one sentence, as a page or as JSON. */
void visit_refuse(struct visit *v, int status, const char *text);
/* The same for visitors who may not act: why, and what to do. */
void visit_refuse_act(struct visit *v);

/* An action is recorded for this person, and from this address. NULL: from this machine. */
const char *visit_who(const struct visit *v);
const char *visit_address(const struct visit *v);

/* Is this visit one that may act? */
bool visit_may_act(const struct visit *v);

#endif
