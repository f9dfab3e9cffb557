/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include <inttypes.h>

/* Why there was nothing to cancel is looked up behind it. */
static int cancel(struct pg *pg, int64_t id, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = store_admin_cancel(pg, id, err);
	struct admin_state_row r;

	if (rc == DEFERRED_ENOTFOUND && admin_state_exec(pg, id, &res, NULL) == 0) {
		r = admin_state_row(res, 0);
		error_clear(err);
		if (!r.state) {
			error_not_there(err, "job", id);
		} else {
			error_set(err, rc, "cancel", "job %" PRId64 " cannot be cancelled: it is %s", id, r.state);
			error_hint(err, "only jobs that have not ended can be cancelled");
		}
	}
	pg_result_free(res);
	return rc;
}

static const char *const states[] = { "ready", "delayed", "waiting", "claimed", NULL };
static int cmd_cancel_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		FILTER_OPTIONS(states, NULL),
		{ "dry-run", NULL, "count the jobs and change nothing", 'n' },
		{ 0 },
	};

	return filter_run(cli, argc, argv, options, "cancelled", STORE_ADMIN_CANCEL, states, cancel);
}

const struct cmd cmd_cancel = {
	"cancel", "ID...\n[--dry-run] FILTER...", "cancel jobs", cmd_cancel_run, "deferred_producer",
};
