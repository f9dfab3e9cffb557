/* SPDX-License-Identifier: MIT */
/*
 * What `deferred doctor` asks of this plugin: are the settings good enough to send a mail? The server is talked to up
 * to the login, as for a mail, and told HELP then, so that nothing is sent and nobody named. It is no function of the
 * table: who defers jobs cannot have it called.
 */
#include "send_mail.h"

#include <stdlib.h>
#include <string.h>

int deferred_mail_check(const struct deferred_call *call) __attribute__((visibility("default")));

int deferred_mail_check(const struct deferred_call *call)
{
	struct address nobody = { .mail = "postmaster" };
	struct sending *s = calloc(1, sizeof(*s));
	CURLcode code = CURLE_OK;
	int rc;

	if (!s) {
		call->host->error(call, "out of memory", 13);
		return DEFERRED_FAILED;
	}
	s->call = call;
	s->from = (struct addresses){ &nobody, 1 };
	rc = smtp_handle() ? talk(s, &code) : fail(s, DEFERRED_FAILED, "libcurl does not start");
	/* A server need not help: then curl fails by that reply, after all that matters went well. */
	if (rc == DEFERRED_OK && code != CURLE_OK &&
	    !(code == CURLE_RECV_ERROR && s->reply_ended && s->reply_code >= 500))
		rc = fail(s, DEFERRED_FAILED, "%s: %s: %s", s->where, stages[s->stage].text,
			  failed_by_reply(s, code) ? s->reply
			  : s->curl_error[0]       ? s->curl_error
						   : curl_easy_strerror(code));
	if (rc != DEFERRED_OK)
		call->host->error(call, s->why, strlen(s->why));
	free(s);
	return rc;
}
