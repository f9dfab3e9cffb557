/* SPDX-License-Identifier: MIT */
#include "doctor_here.h"

#include "port/plugin.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS "5000"

static int out; /* of the child, where it tells */

static const char *doctor_mail_on_setting(const struct deferred_call *call, const char *name)
{
	return strcmp(name, "mail.timeout") == 0 ? TIMEOUT_MS : config_text(call->host_data, name);
}

static void doctor_mail_on_error(const struct deferred_call *call, const char *text, size_t len)
{
	char line[1200];

	(void)call;
	snprintf(line, sizeof(line), "%.*s", len < 1100 ? (int)len : 1100, text);
	doctor_tell(out, 'e', line);
}

static void doctor_mail_check(struct doctor *d, int fd)
{
	static const struct deferred_host host = { .size = sizeof(host),
						   .error = doctor_mail_on_error,
						   .setting = doctor_mail_on_setting };
	struct deferred_call call = { .size = sizeof(call),
				      .attempt = 1,
				      .fn = "send_mail",
				      .params = "{}",
				      .params_len = 2,
				      .label = "",
				      .traceparent = "",
				      .parents = "",
				      .host = &host,
				      .host_data = d->host->cli->config };
	struct deferred_error err = { 0 };
	struct plugin_set *set = NULL;
	int (*mail_check)(const struct deferred_call *call);

	out = fd;
	if (plugin_load_one(&set, config_plugin_dir(d->host->cli->config), "send_mail",
			    d->host->user.switch_user ? 0 : geteuid(), &err) < 0) {
		doctor_tell(fd, 'p', err.message);
		return;
	}
	*(void **)&mail_check = plugin_symbol(set, "deferred_mail_check");
	if (mail_check)
		mail_check(&call);
	else
		doctor_tell(fd, 'p', "plugin send_mail is of another version, and cannot try the mail server");
}

static void doctor_mail_take(struct doctor *d, char letter, const char *text)
{
	doctor_fail(d, "%s", text);
	doctor_why(d, "no mail is sent from this host until that is fixed");
	doctor_do(d, letter == 'p'
			     ? "install the plugins of this version: make install"
			     : "correct mail { } in the config file, or let that server accept mail from this host");
}

/* Where nothing is set nobody meant to send mail from here. */
void doctor_mail(struct doctor *d)
{
	static const char *const given[] = { "mail.host", "mail.port", "mail.tls",
					     "mail.user", "mail.from", "mail.defer" };
	const struct config *c = d->host->cli->config;
	bool wanted = false;
	const char *why;

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		wanted |= config_given(c, given[i]);
	if (!wanted)
		return;
	if (!config_text(c, "mail.from") || !config_text(c, "mail.from")[0]) {
		doctor_warn(d, "mail.from is not set");
		doctor_why(d, "a mail without a sender of its own cannot be sent");
		doctor_do(d, "set mail { from = \"Name <address>\" } in the config file");
	}
	if ((why = doctor_in_child(d, doctor_mail_check, doctor_mail_take)))
		doctor_mail_take(d, 'e', why);
}
