/* SPDX-License-Identifier: MIT */
#include "engine/step/unknown_function.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static void log_unknown(const struct pool *pool, const struct job *job)
{
	const char *clash = functions_clash(&pool->functions, job->fn);

	if (clash)
		log_job(LOG_L_WARNING, job, "job %lld: %s; left for workers that offer one", (long long)job->id, clash);
	else
		log_job(LOG_L_WARNING, job,
			"job %lld: this worker does not offer function '%s'; left for workers that do",
			(long long)job->id, job->fn);
}

static void add_name(struct unknown_function *u, const struct pool *pool, const struct job *job)
{
	char **bigger;

	for (size_t i = 0; i < u->len; i++)
		if (strcmp(u->name[i], job->fn) == 0)
			return;
	log_unknown(pool, job);
	bigger = realloc(u->name, (u->len + 1) * sizeof(*bigger));
	if (!bigger)
		return;
	u->name = bigger;
	if ((bigger[u->len] = strdup(job->fn)))
		u->len++;
}

void unknown_function_return(struct unknown_function *u, struct pool *pool, struct ledger *ledger)
{
	struct job *job, *next;

	for (job = pool_take_late(pool); job; job = next) {
		next = job->next;
		ledger_return(ledger, job);
	}
	while ((job = pool_take_unknown(pool))) {
		add_name(u, pool, job);
		job->set_aside = true;
		ledger_return(ledger, job);
	}
}

void unknown_function_clear(struct unknown_function *u)
{
	while (u->len > 0)
		free(u->name[--u->len]);
	free(u->name);
	u->name = NULL;
}

/* A claim excludes all functions that are not here, once a job of one was met. Excluding only the functions met would
 * let somebody defer jobs of many unknown functions, and each claim would bring one more and nothing else. */
const char **unknown_function_known(const struct unknown_function *u, const struct pool *pool, size_t *len)
{
	const char **names = u->len > 0 ? malloc((pool->functions.served_len + 1) * sizeof(*names)) : NULL;

	for (size_t i = 0; names && i < pool->functions.served_len; i++)
		names[i] = pool->functions.served[i].name;
	*len = names ? pool->functions.served_len : 0;
	return names;
}
