/* SPDX-License-Identifier: MIT */
#include "doctor_here.h"

#include "port/spool.h"
#include "program/certificate.h"
#include "rows/doctor.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- whom functions run as ---------------------------------------------------------------------------- */

static void check_home(struct doctor *d, const char *user, uid_t uid, const char *home)
{
	struct stat st;

	if (stat(home, &st) < 0)
		doctor_warn(d, "HOME of user %s, '%s': %s", user, home, strerror(errno));
	else if (!S_ISDIR(st.st_mode) || (st.st_uid != uid && uid != 0))
		doctor_warn(d, "HOME of user %s, '%s', is %s", user, home,
			    S_ISDIR(st.st_mode) ? "a folder of another user" : "not a folder");
	else
		return;
	doctor_why(d, "functions run with this HOME, and programs that keep settings, keys or caches there fail");
	doctor_do(d, "install -d -o %s -m 700 %s; or usermod -d FOLDER %s", user, home, user);
}

void doctor_user(struct doctor *d)
{
	struct deferred_error err = { 0 };
	const struct passwd *pw = getpwuid(geteuid());

	if (runner_user_find(&d->host->user, d->host->cli->config, &err) < 0) {
		doctor_fail(d, "%s", err.message);
		doctor_why(d, "check_deferred does not start as root, because producers choose what functions do");
		doctor_do(d, "%s",
			  err.hint[0] ? err.hint : "useradd --system that user, or correct user in the config file");
		/* Nothing is loaded as root that would not be run as root. */
		if (!d->host->user.switch_user && (pw = getpwnam("nobody"))) {
			d->host->user.switch_user = true;
			d->host->user.user = "nobody";
			d->host->user.uid = pw->pw_uid;
			d->host->user.gid = pw->pw_gid;
		}
		return;
	}
	if (geteuid() == 0 && (!d->host->user.switch_user || d->host->user.uid == 0))
		doctor_note(d, "functions run as root because allow_root = 1");
	if (d->host->user.switch_user)
		check_home(d, d->host->user.user, d->host->user.uid, d->host->user.home);
	else if (pw)
		check_home(d, pw->pw_name, pw->pw_uid,
			   getenv("HOME") && getenv("HOME")[0] == '/' ? getenv("HOME") : pw->pw_dir);
}

/* ---- the pidfile -------------------------------------------------------------------------------------- */

/* The rules are those of pidfile_take(), which would say so when cron starts it. */
void doctor_pidfile(struct doctor *d)
{
	char dir[PATH_MAX], buf[PATH_MAX];
	const char *path = config_pidfile(d->host->cli->config, buf, sizeof(buf)), *slash;
	struct stat st;

	slash = strrchr(path, '/');
	snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : slash ? (int)(slash - path) : 1, slash ? path : ".");
	if (stat(dir, &st) < 0)
		doctor_fail(d, "folder of pidfile '%s': %s", path, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		doctor_fail(d, "'%s', the folder of the pidfile, is not a folder", dir);
	else if ((st.st_uid != 0 && st.st_uid != geteuid()) ||
		 ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX)))
		doctor_fail(d, "folder '%s' of the pidfile can be written by others (owner %u, mode %04o)", dir,
			    (unsigned int)st.st_uid, (unsigned int)st.st_mode & 07777);
	else if (access(dir, W_OK | X_OK) < 0 && access(path, W_OK) < 0)
		doctor_fail(d, "pidfile '%s': folder '%s' cannot be written by this user", path, dir);
	else if (lstat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
					   (st.st_mode & (S_IWGRP | S_IWOTH)) || st.st_nlink != 1))
		doctor_fail(d, "pidfile '%s' is %s", path,
			    !S_ISREG(st.st_mode)     ? "not a regular file"
			    : st.st_uid != geteuid() ? "a file of another user"
			    : st.st_nlink != 1       ? "a file with several names"
						     : "a file that others can write");
	else
		return;
	doctor_why(d, "check_deferred does not start because it cannot see whether another copy runs");
	doctor_do(d, "run this as the user of the crontab line; else chown or remove the file, or set pidfile "
		     "to a folder of that user");
}

/* ---- the spool ---------------------------------------------------------------------------------------- */

#define SPOOL_OLD_S 600

void doctor_spool(struct doctor *d)
{
	const char *path = config_text(d->host->cli->config, "spool");
	struct deferred_error err = { 0 };
	struct spool_figures f;
	char age[TABLE_AGE_SIZE];

	if (!path || !*path)
		return;
	if (spool_look(path, &f, &err) < 0) {
		doctor_fail(d, "%s", err.message);
		doctor_why(d, "no call is kept while the server cannot be reached");
		doctor_do(d, "%s", err.hint);
	} else if (f.refused > 0) {
		doctor_warn(d, "spool '%s': the database refused %zu entr%s", path, f.refused,
			    f.refused == 1 ? "y" : "ies");
		doctor_why(d, "these calls are not run");
		doctor_do(d, "read %s/refused/*.reason; then deferred spool retry, or remove the files", path);
	} else if (f.oldest_s > SPOOL_OLD_S) {
		doctor_warn(d, "spool '%s': %zu entr%s, the oldest for %s", path, f.entries,
			    f.entries == 1 ? "y" : "ies", table_age(age, f.oldest_s));
		doctor_why(d, "the entries of a user are stored when a program of that user drains them");
		doctor_do(d, "as the owner of the files: deferred spool drain");
	}
}

/* ---- certificates --------------------------------------------------------------------------------------- */

#define SOON_S (14 * 86400)

static void check_certificate(struct doctor *d, const char *setting, bool all)
{
	const char *path = config_text(d->host->cli->config, setting);
	struct deferred_error err = { 0 };
	char age[TABLE_AGE_SIZE];
	int64_t left;

	if (!path || !*path)
		return;
	if (certificate_left(path, all, &left, &err) < 0) {
		doctor_fail(d, "%s: %s", setting, err.message);
		doctor_why(d, "programs that need it cannot connect");
		doctor_do(d, "correct %s in the config file, or the file", setting);
	} else if (left < SOON_S) {
		(left < 0 ? doctor_fail : doctor_warn)(d, left < 0 ? "%s '%s' ended %s ago" : "%s '%s' ends in %s",
						       setting, path, table_age(age, left));
		doctor_why(d, "clients that check it refuse the connection after that");
		doctor_do(d, "renew it, replace the file, and send SIGHUP to deferred_http");
	}
}

void doctor_certificates(struct doctor *d)
{
	check_certificate(d, "http.tls_certificate", true);
	check_certificate(d, "mail.ca_file", false); /* a collection, of which some have always ended */
}

/* ---- cron's line ---------------------------------------------------------------------------------------- */

void doctor_intervals(struct doctor *d)
{
	struct pg_result *res = NULL;
	char age[TABLE_AGE_SIZE], limit[TABLE_AGE_SIZE];

	doctor_superseded(d);
	if (config_flag(d->host->cli->config, "loop") ||
	    strcmp(config_text(d->host->cli->config, "if_running"), "replace") != 0 ||
	    !doctor_ask(d, doctor_intervals_exec, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct doctor_intervals_row r = doctor_intervals_row(res, i);

		doctor_warn(d, "function %s may take %s, and the next start comes after %s, with pidfile %s", r.fn,
			    table_age(limit, r.timeout_ms / 1000), table_age(age, r.gap_s), r.instance);
		doctor_why(d, "a start terminates the copy before it, and the interrupted job starts again");
		doctor_do(d, "%s", doctor_skip);
	}
	pg_result_free(res);
}
