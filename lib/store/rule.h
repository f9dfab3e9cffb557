/* SPDX-License-Identifier: MIT */
/*
 * store_rule - the statements about rules: stored queries whose rows become jobs.
 *
 * There is one function for each file of sql/queries. store_rule_test() and store_rule_run() are transactions of
 * several statements; sql/functions/rule/__rule_run.sql explains them. The connection must have no open transaction.
 * Afterwards none of its session settings remain.
 */
#ifndef STORE_RULE_H
#define STORE_RULE_H

#include "port/pg.h"
#include "rows/rule.h"

struct store_rule {
	const char *name, *query, *fn, *key_column;
	const char *params; /* JSON object */
	const char *queue;  /* NULL: default */
	int priority;
	const char *opts; /* JSON object, names and values as deferred.defer() takes them */
	int64_t statement_timeout_ms;
};

/*
 * Store a rule, once its query was planned and found to have the key column; else nothing is stored. Source:
 * rule_add.sql, rule_look.sql.
 */
int store_rule_add(struct pg *pg, const struct store_rule *rule, struct deferred_error *err);

/* Plan a rule and fetch its first `sample` rows; queues nothing. *res is given: the rows rule_look.sql describes. */
int store_rule_test(struct pg *pg, const char *name, int sample, struct pg_result **res, struct deferred_error *err);

struct store_rule_run {
	/* In: told now and then how far it is, both phases being as long as the rule has rows; NULL: not wanted. */
	void (*on_progress)(void *data, double queued, double stored, double estimate);
	void *data;
	int64_t flow; /* that they are added to; 0: none */
	/* Out. */
	double estimate; /* rows, by the planner */
	int64_t queued, skipped, failed;
	struct pg_result *examples; /* given; column 3 is the JSON array rule_run.sql describes. NULL on failure */
};

/*
 * Make jobs of the rows of a rule, all in one transaction. No row comes to the client.
 *
 * Returns 0. On failure nothing was queued, and the rule stores the reason. It does not if err->sqlstate is P0002 (no
 * such rule), 42501 (not one's own) or 55006 (it is running).
 */
int store_rule_run(struct pg *pg, const char *name, struct store_rule_run *run, struct deferred_error *err);

#endif
