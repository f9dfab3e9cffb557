/* SPDX-License-Identifier: MIT */
/* Pages that are one table. */
#include "pages.h"

#include "rows/rule.h"
#include "rows/token.h"
#include "rows/web.h"

int pages_list(struct web_request *r, const struct part *part, const char *hint, struct pg_result *res, int rc)
{
	if (rc == 0) {
		page_begin(r, NULL, r->route->title);
		if (!r->json)
			buf_text(&r->reply.body, hint);
		page_live(r, part->key);
		part_result(r, part, res);
		page_live_end(r);
		page_end(r);
	}
	pg_result_free(res);
	return rc;
}

int pages_workers(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(web_workers, id), CELL_INT, "worker", "Worker" },
		{ AT(web_workers, host), CELL_TEXT, "host", "Host" },
		{ AT(web_workers, pid), CELL_INT, "pid", "Process" },
		{ AT(web_workers, alive), CELL_BOOL, "alive", "Alive" },
		{ AT(web_workers, started_s), CELL_AGO, "started_s", "Started" },
		{ AT(web_workers, seen_s), CELL_AGO, "seen_s", "Seen" },
		{ AT(web_workers, ended_s), CELL_AGO, "ended_s", "Ended" },
		{ AT(web_workers, queues), CELL_PROSE, "queues", "Serves only" },
		{ AT(web_workers, version), CELL_TEXT, "version", "Version" },
		{ AT(web_workers, instance), CELL_TEXT, "instance", "" },
	};
	static const struct part part = PART("workers", NULL, "No worker has run a job yet.", columns);
	struct pg_result *res = NULL;
	int rc = web_workers_exec(r->pg, &res, err);

	return pages_list(r, &part,
			  "<p class=\"hint\">Live workers first, then the newest that have ended. A run that found no "
			  "job is not listed.</p>",
			  res, rc);
}

int pages_rules(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(rule_ls, name), CELL_TEXT, "name", "Rule" },
		{ AT(rule_ls, fn), CELL_FN, "fn", "Function" },
		{ AT(rule_ls, queue), CELL_QUEUE, "queue", "Queue" },
		{ AT(rule_ls, owner), CELL_TEXT, "owner", "Owner" },
		{ AT(rule_ls, last_run_s), CELL_AGO, "last_run_s", "Last run" },
		{ AT(rule_ls, last_run_ms), CELL_INT, "last_run_ms", "Took (ms)" },
		{ AT(rule_ls, last_queued), CELL_INT, "queued", "Queued" },
		{ AT(rule_ls, last_skipped), CELL_INT, "skipped", "Skipped" },
		{ AT(rule_ls, last_failed), CELL_INT, "failed", "Failed" },
		{ AT(rule_ls, last_error), CELL_PROSE, "error", "Error" },
	};
	static const struct part part = PART("rules", NULL, "No rules yet.", columns);
	struct pg_result *res = NULL;
	int rc = rule_ls_exec(r->pg, &res, err);

	return pages_list(r, &part,
			  "<p class=\"hint\">A rule is a stored query that creates one job per row. <code>deferred "
			  "rule</code> manages rules.</p>",
			  res, rc);
}

int pages_accounts(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(web_accounts, name), CELL_TEXT, "account", "Account" },
		{ AT(web_accounts, enabled), CELL_BOOL, "enabled", "Enabled" },
		{ AT(web_accounts, functions), CELL_PROSE, "functions", "May call" },
		{ AT(web_accounts, created_s), CELL_AGO, "added_s", "Added" },
		{ AT(web_accounts, key1_s), CELL_AGO, "key1_s", "First key created" },
		{ AT(web_accounts, key2_s), CELL_AGO, "key2_s", "Second key created" },
	};
	static const struct part part = PART("accounts", NULL, "No accounts yet.", columns);
	struct pg_result *res = NULL;
	int rc = web_accounts_exec(r->pg, &res, err);

	return pages_list(r, &part,
			  "<p class=\"hint\">Accounts of <code>deferred_http</code>. <code>deferred account</code> "
			  "manages them.</p>",
			  res, rc);
}

int pages_tokens(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(token_ls, token), CELL_TEXT, "token", "Token" },
		{ AT(token_ls, may), CELL_PROSE, "may", "May" },
		{ AT(token_ls, functions), CELL_PROSE, "functions", "Functions" },
		{ AT(token_ls, queues), CELL_PROSE, "queues", "Queues" },
		{ AT(token_ls, expires), CELL_ZONED, "expires", "Expires" },
	};
	static const struct part part = PART("tokens", NULL, "No tokens yet.", columns);
	struct pg_result *res = NULL;
	int rc = token_ls_exec(r->pg, &res, err);

	return pages_list(r, &part,
			  "<p class=\"hint\">Tokens of the JSON API of <code>deferred_http</code>. <code>deferred "
			  "token</code> manages them.</p>",
			  res, rc);
}
