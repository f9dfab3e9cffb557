/* SPDX-License-Identifier: MIT */
/*
 * One call of the function http, and the steps it goes through.
 *
 *   outbound_params.c    outbound_params()    what the params ask for, checked
 *   outbound_secrets.c   outbound_secrets()   the secrets of a signature, from the files of http.secrets
 *   outbound_transfer.c  outbound_transfer()  one request and its answer
 *   main.c               send_http()          the steps in order, redirects, and what the answer makes of the job
 *   outbound.c           outbound_fail()      the reason of a failure, and settings: for all steps
 *
 * Each step returns DEFERRED_OK, or the result of the call with the reason in `why`.
 */
#ifndef OUTBOUND_H
#define OUTBOUND_H

#include "webhook.h"

#include <curl/curl.h>
#include <deferred_plugin.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTBOUND_RESULT_MAX 8192
#define OUTBOUND_BODY_MAX ((size_t)16 << 20)
#define OUTBOUND_HEAD_MAX ((size_t)64 << 10)
#define OUTBOUND_REDIRECTS_MAX 5
#define OUTBOUND_SECRETS_MAX 2
#define OUTBOUND_WHERE_SIZE 300

struct outbound {
	const struct deferred_call *call;
	char why[2048]; /* what to report */

	/* The request. Texts are borrowed from params, body from call->params or params. */
	json_t *params;
	const json_t *headers; /* an object; NULL: none */
	CURLU *url;
	char where[OUTBOUND_WHERE_SIZE]; /* SCHEME://HOST:PORT of url */
	const char *method, *body, *body_type, *allow;
	size_t body_len;
	bool follow, elsewhere; /* elsewhere: a redirect led to another host */
	struct webhook_secret secrets[OUTBOUND_SECRETS_MAX];
	size_t secrets_len;
	int64_t deadline_ms; /* of the whole call, by clock_ms() */

	CURL *curl;

	/* The answer. */
	long status; /* 0: no whole head has come */
	size_t head_len, total_len, kept_len;
	char kept[OUTBOUND_RESULT_MAX]; /* the first bytes of the body */
	const char *cut; /* why the answer was not read to its end; NULL: it was, or curl_error says why */
	char refused[INET6_ADDRSTRLEN]; /* an address that was not connected to; "" if there is none */
	bool connecting;                /* an address was not refused */
	char curl_error[CURL_ERROR_SIZE];
};

/* Says why. Returns `result`. */
int outbound_fail(struct outbound *o, int result, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Value of a setting, NULL where it is not set or empty. Borrowed for the call. */
const char *outbound_setting(const struct outbound *o, const char *name);

int outbound_params(struct outbound *o);

/* Takes text as the URL of the request, relative to the one before if there is one. what: its name in a message. */
int outbound_url(struct outbound *o, const char *what, const char *text);

/* A header of the params, whatever case its name has. NULL: it is not there. */
const char *outbound_header(const struct outbound *o, const char *name);

int outbound_secrets(struct outbound *o, const char *name);

/* Sends the request, and fills in the answer. The result is in *code. */
int outbound_transfer(struct outbound *o, CURLcode *code);

#endif
