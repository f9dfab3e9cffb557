/* SPDX-License-Identifier: MIT */
#include "run/user.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

static int refuse_root(const struct config *config, const char *why, struct deferred_error *err)
{
	if (config_flag(config, "allow_root"))
		return 0;
	error_set(err, DEFERRED_ECONFIG, "user", "functions would run as root: %s", why);
	error_hint(err, "add user = \"deferred\" to the config file, after useradd --system deferred; or, to try "
			"things by hand, allow_root = 1");
	return DEFERRED_ECONFIG;
}

int runner_user_find(struct runner_setup *setup, const struct config *config, struct deferred_error *err)
{
	const char *name = config_text(config, "user");
	struct passwd *pw;

	if (geteuid() != 0)
		return 0;
	if (!name || !*name)
		return refuse_root(config, "setting 'user' is not set", err);
	pw = getpwnam(name);
	if (!pw)
		return error_set(err, DEFERRED_ECONFIG, "user",
				 "setting 'user': user '%s' does not exist\ncorrect it, or add the user with useradd",
				 name);
	setup->switch_user = true;
	setup->user = name;
	setup->uid = pw->pw_uid;
	setup->gid = pw->pw_gid;
	snprintf(setup->home, sizeof(setup->home), "%s", pw->pw_dir && pw->pw_dir[0] == '/' ? pw->pw_dir : "/");
	snprintf(setup->shell, sizeof(setup->shell), "%s", pw->pw_shell && pw->pw_shell[0] ? pw->pw_shell : "/bin/sh");
	return pw->pw_uid == 0 ? refuse_root(config, "setting 'user' names an account with its uid", err) : 0;
}
