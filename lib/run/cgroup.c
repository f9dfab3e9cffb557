/* SPDX-License-Identifier: MIT */
#include "run/cgroup.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIE_MS 100 /* so long what was killed may take to die */
#define BASE (-1)  /* number of the group we were started in */
#define OWN 0      /* of the one below it that this process may move into; those of runners follow */

static const char *const controllers[] = { "pids", "memory" };
#define CONTROLLERS (sizeof(controllers) / sizeof(controllers[0]))

static char base[PATH_MAX - 256]; /* folder of BASE; "": no groups are made */
static char prefix[100];          /* of the names of ours */
static int last;                  /* number of the one made last */
static bool ours;                 /* the group we were started in is */
static bool moved;                /* we are in OWN */
static bool enabled[CONTROLLERS]; /* by us */

/* ---- files ------------------------------------------------------------------------------------ */

static void path_of(char path[static PATH_MAX], int group, const char *file)
{
	if (group == BASE)
		snprintf(path, PATH_MAX, "%s/%s", base, file);
	else
		snprintf(path, PATH_MAX, "%s/%s%d%s%s", base, prefix, group, *file ? "/" : "", file);
}

/* Returns 0, or -1 with errno. */
static int put(int group, const char *file, const char *text)
{
	char path[PATH_MAX];
	int fd, saved;
	ssize_t n;

	path_of(path, group, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	saved = errno;
	close(fd);
	errno = saved;
	return n < 0 ? -1 : 0;
}

/* Is the word, or any with NULL, in this file? */
static bool has(int group, const char *file, const char *word)
{
	char path[PATH_MAX], found[64];
	bool is_there = false;
	FILE *f;

	path_of(path, group, file);
	f = fopen(path, "re");
	while (f && !is_there && fscanf(f, "%63s", found) == 1)
		is_there = !word || strcmp(found, word) == 0;
	if (f)
		fclose(f);
	return is_there;
}

static bool may(int group, const char *file, int mode)
{
	char path[PATH_MAX];

	path_of(path, group, file);
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

/* ---- where we are ----------------------------------------------------------------------------- */

/* The name of our group, as /proc has it: it begins with a slash. False: there is no version 2. */
static bool read_own(char own[static PATH_MAX])
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX + 8];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, "0::/", 4) == 0;
	}
	if (f)
		fclose(f);
	if (found)
		snprintf(own, PATH_MAX, "%.*s", PATH_MAX - 1, line + 3);
	return found;
}

/* Fill in base, by a mount that shows our group. */
static bool find_base(void)
{
	char own[PATH_MAX], line[3 * PATH_MAX], root[PATH_MAX], point[PATH_MAX];
	bool found = false;
	FILE *f;

	if (!read_own(own))
		return false;
	f = fopen("/proc/self/mountinfo", "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		size_t shown;
		int n;

		if (!strstr(line, " - cgroup2 ") || sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) != 2)
			continue;
		shown = strcmp(root, "/") == 0 ? 0 : strlen(root);
		/* A path outside of our namespace begins with "/..". */
		if (strncmp(own, root, shown) != 0 || (own[shown] != '/' && own[shown] != '\0') ||
		    strncmp(own, "/..", 3) == 0)
			continue;
		n = snprintf(base, sizeof(base), "%s%s", point, strcmp(own + shown, "/") == 0 ? "" : own + shown);
		found = n > 0 && (size_t)n < sizeof(base);
	}
	if (f)
		fclose(f);
	if (!found)
		base[0] = '\0';
	return found;
}

/* ---- the end of a group ----------------------------------------------------------------------- */

static int remove_folder(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)at;
	if (type == FTW_DP)
		rmdir(path);
	return 0;
}

/* Processes of our user may have made groups below. */
void cgroup_end(int group)
{
	char path[PATH_MAX];

	if (!*base || group <= OWN)
		return;
	path_of(path, group, "");
	for (int ms = 0; rmdir(path) < 0 && errno == EBUSY && ms < DIE_MS; ms++) {
		if (ms == 0 && put(group, "cgroup.kill", "1") < 0)
			log_line(LOG_L_WARNING, "control group '%s' cannot be killed: %s", path, strerror(errno));
		else
			poll(NULL, 0, 1);
		nftw(path, remove_folder, 16, FTW_DEPTH | FTW_PHYS);
	}
}

static void end_all(void)
{
	DIR *d = opendir(base);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
			cgroup_end(atoi(e->d_name + strlen(prefix)));
	if (d)
		closedir(d);
}

/* ---- beginning -------------------------------------------------------------------------------- */

static void move_in(void)
{
	moved = put(OWN, "cgroup.procs", "0") == 0;
}

/* To where we were started: there must be no controllers handed on from there again. */
static void move_out(void)
{
	char text[16];

	for (size_t i = 0; i < CONTROLLERS; i++) {
		snprintf(text, sizeof(text), "-%s", controllers[i]);
		if (enabled[i] && put(BASE, "cgroup.subtree_control", text) == 0)
			enabled[i] = false;
	}
	moved = put(BASE, "cgroup.procs", "0") < 0;
}

static bool can_enable(size_t i)
{
	return has(BASE, "cgroup.controllers", controllers[i]) && !has(BASE, "cgroup.subtree_control", controllers[i]);
}

/* A group that hands on controllers must have no processes of its own: where it has any, nothing could enter those
 * below. Only the root of all, which is of no type, may have both. */
static bool make_room(void)
{
	if (!may(BASE, "cgroup.type", F_OK))
		return true;
	move_in();
	if (moved && has(BASE, "cgroup.procs", NULL))
		move_out(); /* others are there too */
	return moved;
}

static void enable_all(void)
{
	bool any = false;

	for (size_t i = 0; i < CONTROLLERS; i++)
		any |= can_enable(i);
	if (!any || !make_room())
		return;
	for (size_t i = 0; i < CONTROLLERS; i++) {
		char text[16];

		snprintf(text, sizeof(text), "+%s", controllers[i]);
		enabled[i] = can_enable(i) && put(BASE, "cgroup.subtree_control", text) == 0;
	}
}

/* Can groups be made, entered and killed here? Leaves OWN behind. */
static bool try_own(void)
{
	char path[PATH_MAX];

	path_of(path, OWN, "");
	if (!may(BASE, "cgroup.procs", W_OK) || (mkdir(path, 0755) < 0 && errno != EEXIST) ||
	    !may(OWN, "cgroup.kill", W_OK))
		return false;
	errno = EOPNOTSUPP;
	return !has(OWN, "cgroup.type", "invalid");
}

static void remove_own(void)
{
	char path[PATH_MAX];

	path_of(path, OWN, "");
	rmdir(path);
}

void cgroup_init(const char *name, bool delegated)
{
	ours = delegated;
	snprintf(prefix, sizeof(prefix), "deferred-%.80s.", name);
	if (!find_base()) {
		log_line(LOG_L_DEBUG, "no control groups for runners: no mount of version 2 shows ours");
		return;
	}
	if (!try_own()) {
		log_line(LOG_L_DEBUG, "no control groups for runners: cannot make one in '%s': %s", base,
			 strerror(errno));
		remove_own();
		base[0] = '\0';
		return;
	}
	end_all();
	if (ours)
		enable_all();
	if (!moved)
		remove_own();
	log_line(LOG_L_DEBUG, "control groups for runners are made in '%s'; limits: processes %s, memory %s", base,
		 ours && has(BASE, "cgroup.subtree_control", "pids") ? "yes" : "no",
		 ours && has(BASE, "cgroup.subtree_control", "memory") ? "yes" : "no");
}

void cgroup_leave(void)
{
	if (!*base)
		return;
	end_all();
	if (moved)
		move_out();
	if (!moved)
		remove_own();
	base[0] = '\0';
}

/* ---- a group of a runner ---------------------------------------------------------------------- */

/* No such file: no such controller. */
static int put_limit(int group, const char *file, int64_t limit)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)limit);
	return limit == 0 || put(group, file, text) == 0 || errno == ENOENT ? 0 : -1;
}

int cgroup_make(int64_t processes, int64_t memory_bytes, struct deferred_error *err)
{
	char path[PATH_MAX];
	int rc = -1;

	if (!*base)
		return 0;
	/* One may be there still, with what is stuck. */
	do
		path_of(path, ++last, "");
	while ((rc = mkdir(path, 0755)) < 0 && errno == EEXIST);
	if (rc < 0 && !ours)
		return 0;
	if (rc < 0)
		return error_errno(err, DEFERRED_ESYSTEM, "cgroup",
				   "cannot make control group '%s'\ncorrect its limits, or set them to 0", path);
	if (!ours)
		return last;
	if (put_limit(last, "pids.max", processes) == 0 && put_limit(last, "memory.max", memory_bytes) == 0)
		return last;
	error_errno(err, DEFERRED_ESYSTEM, "cgroup",
		    "cannot set the limits of control group '%s'\nset them to 0 to do without", path);
	cgroup_end(last);
	return DEFERRED_ESYSTEM;
}

int cgroup_enter(int group)
{
	return *base && group > OWN && put(group, "cgroup.procs", "0") < 0 && ours ? -1 : 0;
}
