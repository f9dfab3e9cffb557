/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "front/ops.h"
#include "program/exposition.h"
#include "store/migrate.h"

#include <stdlib.h>
#include <string.h>

/* So often at most is the database asked, however often we are. */
#define ASK_EVERY_NS NS_PER_S

/* Without a query neither path is an operation in either address form, so nothing of the protocol is hidden by them. */
bool health_is_asked(const struct request *r)
{
	return (r->verb & (VERB_GET | VERB_HEAD)) && r->params_len == 0 &&
	       (strcmp(r->raw_path, "/healthz") == 0 || strcmp(r->raw_path, "/readyz") == 0);
}

static enum served_step answer_text(struct exchange *x, int status, const char *text)
{
	x->reply.status = status;
	x->reply.content_type = "text/plain";
	buf_text(&x->reply.body, text);
	return SERVED_ANSWER;
}

/* At an address of their own there are metrics and these, and nothing of the protocol. */
enum served_step health_metrics(struct exchange *x)
{
	bool open = exposition_wants_open(request_value(&x->request, "accept"));
	char *text;

	if (strcmp(x->request.raw_path, "/metrics") != 0)
		return answer_text(x, 404, "here are /metrics, /healthz and /readyz alone\n");
	if (!(x->request.verb & (VERB_GET | VERB_HEAD)))
		return answer_text(x, 405, "metrics are to be read\n");
	text = request_metrics_text(x->front->request_metrics, open);
	if (!text)
		return answer_text(x, 503, "out of memory\n");
	answer_text(x, 200, text);
	x->reply.content_type = open ? EXPOSITION_TYPE_OPEN : EXPOSITION_TYPE;
	free(text);
	return SERVED_ANSWER;
}

static int ask_schema(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	int rc = migrate_check(pg, err);

	/* A wrong schema is an answer too; the connection that found it is of no more use than a lost one. */
	x->status = rc == 0 ? MESSAGE_OK : MESSAGE_FORBIDDEN;
	return rc == DEFERRED_ESCHEMA ? 0 : rc;
}

static enum served_step answer_ready(struct exchange *x)
{
	if (x->job.outcome != BATCHER_DONE || x->status != MESSAGE_OK)
		return answer_text(x, 503, "the database cannot be used: the log says why\n");
	x->front->ready_ns = clock_ns();
	return answer_text(x, 200, "ready\n");
}

enum served_step health_answer(struct exchange *x)
{
	uint64_t last = x->front->ready_ns;
	const char *trouble = account_cache_trouble(x->front->account_cache);

	if (strcmp(x->request.raw_path, "/healthz") == 0)
		return answer_text(x, 200, "alive\n");
	if (!batcher_ready(x->front->batcher))
		return answer_text(x, 503, "the database cannot be used: the log says why\n");
	if (trouble)
		return answer_text(x, 503, arena_printf(&x->arena, "%s\n", trouble));
	if (last != 0 && clock_ns() - last < ASK_EVERY_NS)
		return answer_text(x, 200, "ready\n");
	return exchange_call(x, BATCHER_CALL, ask_schema, answer_ready);
}
