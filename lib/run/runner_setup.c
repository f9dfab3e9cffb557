/* SPDX-License-Identifier: MIT */
#include "run/runner_setup.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *runner_setup_program(char path[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 32);
	char *slash;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		strcpy(slash + 1, "deferred_runner");
		if (access(path, X_OK) == 0)
			return path;
	}
	snprintf(path, PATH_MAX, "%s/deferred_runner", DEFERRED_LIBEXECDIR);
	return path;
}

static int put_setting(void *data, const char *name, const char *value)
{
	return frame_put_texts(data, FRAME_SETTING, name, value ? value : "");
}

static int put_command(struct frame_buf *out, const struct config_command *c)
{
	struct frame_function fixed = { c->timeout_ms, c->max_attempts,
					(c->program          ? FRAME_OF_PROGRAM
					 : c->new_privileges ? FRAME_NEW_PRIVILEGES
							     : 0) |
						(c->progress_resets ? FRAME_PROGRESS_RESETS : 0),
					c->batch, c->batch_wait_ms };
	const char *const of_program[] = { c->program, NULL }, *const *argv = c->program ? of_program : c->argv;
	struct frame_part parts[66] = { { &fixed, sizeof(fixed) }, { c->name, strlen(c->name) + 1 } };
	size_t n = 2;

	for (size_t i = 0; argv[i]; i++) {
		if (n == sizeof(parts) / sizeof(parts[0]))
			return -1;
		parts[n++] = (struct frame_part){ argv[i], strlen(argv[i]) + 1 };
	}
	return frame_put(out, FRAME_COMMAND, 0, parts, n);
}

static int put_program(struct frame_buf *out, const struct config_program *p, bool isolate_job)
{
	struct frame_program fixed = {
		.max_jobs = p->max_jobs >= 0 ? p->max_jobs
			    : isolate_job    ? 1
					     : 1000,
		.max_memory = p->max_memory,
		.start_timeout_ms = p->start_timeout_ms,
		.timeout_ms = p->timeout_ms,
		.max_attempts = p->max_attempts,
		.declared = p->declared,
	};
	const char *directory = p->directory ? p->directory : "";
	struct frame_part parts[131] = { { &fixed, sizeof(fixed) },
					 { p->name, strlen(p->name) + 1 },
					 { directory, strlen(directory) + 1 } };
	size_t n = 3;

	for (const char *const *list = p->argv; list; list = list == p->argv ? p->watch : NULL) {
		for (size_t i = 0; list[i]; i++) {
			if (n == sizeof(parts) / sizeof(parts[0]))
				return -1;
			parts[n++] = (struct frame_part){ list[i], strlen(list[i]) + 1 };
		}
		if (list == p->argv)
			fixed.arguments = (uint16_t)(n - 3);
	}
	return frame_put(out, FRAME_PROGRAM, 0, parts, n);
}

int runner_setup_send(const struct runner_setup *setup, struct frame_buf *out)
{
	const struct config *config = setup->config;
	struct frame_start start = {
		.owner_uid = (uint32_t)(setup->switch_user ? setup->uid : geteuid()),
		.isolate_job = strcmp(config_text(config, "isolate"), "job") == 0,
		.cpu_ms = config_int(config, "cpu_limit"),
		.memory_bytes = config_int(config, "memory_limit"),
		.files = config_int(config, "files_limit"),
		.processes = config_int(config, "processes_limit"),
		.probe = setup->probe,
		.debug = setup->debug,
		.kill_after_ms = config_int(config, "kill_after"),
	};
	const char *dir = setup->plugin_dir ? setup->plugin_dir : "";
	struct frame_part parts[] = { { &start, sizeof(start) }, { dir, strlen(dir) + 1 } };
	const struct config_command *commands;
	const struct config_program *programs;
	size_t n;

	if (config_each_public(config, put_setting, out) < 0)
		return -1;
	programs = config_programs(config, &n);
	for (size_t i = 0; i < n; i++)
		if (put_program(out, &programs[i], start.isolate_job) < 0)
			return -1;
	commands = config_commands(config, &n);
	for (size_t i = 0; i < n; i++)
		if (put_command(out, &commands[i]) < 0)
			return -1;
	for (size_t i = 0; i < setup->passed_over.len; i++)
		if (setup->passed_over.plugin[i].until_ns > clock_ns() &&
		    frame_put_texts(out, FRAME_PASS_OVER, setup->passed_over.plugin[i].file, NULL) < 0)
			return -1;
	return frame_put(out, FRAME_START, 0, parts, 2);
}
