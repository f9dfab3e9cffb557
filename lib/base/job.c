/* SPDX-License-Identifier: MIT */
#include "base/job.h"

#include <stdlib.h>
#include <string.h>

const char *job_outcome_text(enum job_outcome outcome)
{
	static const char *const texts[] = {
#define X(name, text) [JOB_##name] = text,
		JOB_OUTCOMES(X)
#undef X
	};
	return texts[outcome];
}

int job_outcome_of(const char *text)
{
#define X(name, word) \
	if (strcmp(text, word) == 0) \
		return JOB_##name;
	JOB_OUTCOMES(X)
#undef X
	return -1;
}

const char *job_state_text(enum job_state state)
{
	static const char *const texts[] = {
#define X(name, text) [JOB_IS_##name] = text,
		JOB_STATES(X)
#undef X
	};
	return texts[state];
}

struct job *job_new(const char *queue, const char *fn, const char *label, const char *params, size_t params_len)
{
	size_t queue_size = strlen(queue) + 1, fn_size = strlen(fn) + 1, label_size = strlen(label) + 1;
	struct job *job = malloc(sizeof(*job) + queue_size + fn_size + label_size + params_len + 1);
	char *p;

	if (!job)
		return NULL;
	memset(job, 0, sizeof(*job));
	p = job->text;
	job->queue = memcpy(p, queue, queue_size);
	p += queue_size;
	job->fn = memcpy(p, fn, fn_size);
	p += fn_size;
	job->label = memcpy(p, label, label_size);
	p += label_size;
	job->params = memcpy(p, params, params_len);
	p[params_len] = '\0';
	job->params_len = (uint32_t)params_len;
	job->parents = job->steps = "";
	return job;
}

/* Behind its texts. */
struct job *job_add_answer(struct job *job, const char *parents, const char *steps)
{
	size_t fn = (size_t)(job->fn - job->text), label = (size_t)(job->label - job->text),
	       params = (size_t)(job->params - job->text);
	size_t queue = (size_t)(job->queue - job->text), end = params + job->params_len + 1,
	       parents_size = strlen(parents) + 1, steps_size = strlen(steps) + 1;
	struct job *bigger = realloc(job, sizeof(*job) + end + parents_size + steps_size);

	if (!bigger)
		return NULL;
	bigger->queue = bigger->text + queue;
	bigger->fn = bigger->text + fn;
	bigger->label = bigger->text + label;
	bigger->params = bigger->text + params;
	bigger->parents = memcpy(bigger->text + end, parents, parents_size);
	bigger->parents_len = (uint32_t)parents_size - 1;
	bigger->steps = memcpy(bigger->text + end + parents_size, steps, steps_size);
	bigger->steps_len = (uint32_t)steps_size - 1;
	bigger->has_steps = bigger->steps_len > 0;
	return bigger;
}

void job_list_free(struct job *jobs)
{
	while (jobs) {
		struct job *next = jobs->next;

		free(jobs);
		jobs = next;
	}
}

bool job_same_key(const struct job *a, const struct job *b)
{
	return a->key > 0 && a->key == b->key && a->receipt == b->receipt;
}

void job_list_push(struct job **list, struct job *job)
{
	job->next = *list;
	*list = job;
}
