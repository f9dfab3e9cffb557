/* SPDX-License-Identifier: MIT */
/* store_json_api - requests of the JSON API of deferred_http. The database does what they ask for, and makes the
 * answers. */
#ifndef STORE_JSON_API_H
#define STORE_JSON_API_H

#include "port/pg.h"

#define JSON_API_TOKEN_SIZE 65

struct json_api_request {
	char token[JSON_API_TOKEN_SIZE]; /* SHA-256 of it, in hexadecimal digits */
	const char *op;                  /* sql/functions/api/__api_run.sql */
	const char *arg;                 /* NULL: none */
	const char *const *names, *const *values;
	size_t params;    /* of the query */
	const char *body; /* NUL-terminated UTF-8 */
	const char *key;  /* Idempotency-Key; NULL: none */
	bool look;        /* only check the token */
};

struct json_api_answer {
	int status;
	char *body; /* given; NULL: none */
	char location[32];
	bool replayed;
	int64_t retry_after;        /* seconds; 0: not said */
	int64_t wait_ms, waits_for; /* job that the client waits for; 0: none */
	char who[64];               /* name of the token; "": it is not valid */
};
void json_api_answer_clear(struct json_api_answer *answer);

/* Source: api_call.sql. */
int store_json_api_call(struct pg *pg, const struct json_api_request *request, struct json_api_answer *answer,
			struct deferred_error *err);

/* POST /v1/jobs of several clients as one statement. After an error none had an effect. Source: api_defer.sql. */
struct json_api_defer {
	const struct json_api_request *request;
	struct json_api_answer *answer;
};
int store_json_api_defer(struct pg *pg, struct json_api_defer *items, size_t n, struct deferred_error *err);

#endif
