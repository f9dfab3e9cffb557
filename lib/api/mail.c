/* SPDX-License-Identifier: MIT */
/*
 * deferred_send_mail(): a mail becomes params of the function send_mail; those become a job, or the plugin
 * is called with them here and now.
 */
#include "api/defer_check.h"
#include "base/text/base64.h"
#include "base/mail_rules.h"
#include "port/beneath.h"
#include "port/config.h"
#include "port/params.h"
#include "port/plugin.h"
#include "base/text/utf8.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define LABEL_MAX 1000 /* bytes of a label made of the subject */

#define PARAMS_HINT "\ndeferred_functions(7) describes the params of send_mail"

/* ---- params ----------------------------------------------------------------------------------- */

static int refuse(struct deferred_error *err, const char *field, const char *value, const char *wrong)
{
	if (!wrong)
		return 0;
	if (!value || mail_line_wrong(value, strlen(value)))
		return error_set(err, DEFERRED_EINVAL, "mail", "%s %s" PARAMS_HINT, field, wrong);
	return error_set(err, DEFERRED_EINVAL, "mail", "%s: '%.200s' %s" PARAMS_HINT, field, value, wrong);
}

static int check_line(struct deferred_error *err, const char *field, const char *text)
{
	return text ? refuse(err, field, NULL, mail_line_wrong(text, strlen(text))) : 0;
}

static int put_mailbox(struct params_text *t, const char *key, const char *field, const struct deferred_mailbox *m,
		       struct deferred_error *err)
{
	const char *mail = m->mail ? m->mail : "";

	if (refuse(err, field, mail, mail_address_wrong(mail, strlen(mail))) < 0 ||
	    check_line(err, field, m->label) < 0)
		return DEFERRED_EINVAL;
	params_open(t, key, '{');
	params_string(t, "mail", mail);
	if (m->label && *m->label)
		params_string(t, "label", m->label);
	params_close(t, '}');
	return 0;
}

static int put_mailboxes(struct params_text *t, const char *key, const struct deferred_mailbox *m, size_t len,
			 struct deferred_error *err)
{
	int rc = 0;

	if (len == 0)
		return 0;
	params_open(t, key, '[');
	for (size_t i = 0; i < len && rc == 0; i++)
		rc = put_mailbox(t, NULL, key, &m[i], err);
	params_close(t, ']');
	return rc;
}

static int put_content(struct params_text *t, const struct deferred_attachment *a, struct deferred_error *err)
{
	char *text = a->content_len < SIZE_MAX / 4 ? malloc(BASE64_SIZE(a->content_len)) : NULL;

	if (!text)
		return error_set(err, DEFERRED_ENOMEM, "mail", "out of memory");
	base64_encode(a->content, a->content_len, text);
	params_string(t, "content_base64", text);
	free(text);
	return 0;
}

static const char *repeated_cid(const struct deferred_mail *m, size_t i)
{
	for (size_t k = 0; k < i && m->attachments[i].cid; k++)
		if (m->attachments[k].cid && strcmp(m->attachments[k].cid, m->attachments[i].cid) == 0)
			return "has a cid that is there twice";
	return NULL;
}

static int put_attachment(struct params_text *t, const struct deferred_mail *m, size_t i, struct deferred_error *err)
{
	const struct deferred_attachment *a = &m->attachments[i];
	const char *path = a->content ? NULL : a->path, *wrong;
	struct mail_file file = { path, a->name, a->type, a->cid, .bytes = a->content, .html = m->html };
	int rc;

	wrong = mail_file_wrong(&file);
	if ((rc = refuse(err, "attachment", a->name ? a->name : path, wrong ? wrong : repeated_cid(m, i))) < 0)
		return rc;
	params_open(t, NULL, '{');
	if (path)
		params_string(t, "path", path);
	else if ((rc = put_content(t, a, err)) < 0)
		return rc;
	if (a->name)
		params_string(t, "name", a->name);
	if (a->type)
		params_string(t, "type", a->type);
	if (a->cid)
		params_string(t, "cid", a->cid);
	if (a->delete_after_send && path)
		params_flag(t, "delete_after_send", true);
	params_close(t, '}');
	return 0;
}

static int put_headers(struct params_text *t, const struct deferred_header *h, size_t len, struct deferred_error *err)
{
	bool plain;

	if (len > MAIL_HEADERS_MAX)
		return error_set(err, DEFERRED_EINVAL, "mail", "headers has more than %d headers\nremove some",
				 MAIL_HEADERS_MAX);
	params_open(t, "headers", '{');
	for (size_t i = 0; i < len; i++) {
		const char *name = h[i].name ? h[i].name : "", *wrong = mail_header_wrong(name, h[i].text, &plain);

		for (size_t k = 0; k < i && !wrong; k++)
			wrong = strcasecmp(h[k].name, name) == 0 ? "is there twice" : NULL;
		if (refuse(err, "headers", name, wrong) < 0)
			return DEFERRED_EINVAL;
		params_string(t, name, h[i].text);
	}
	params_close(t, '}');
	return 0;
}

static int check_mail(const struct deferred_mail *m, struct deferred_error *err)
{
	char method[MAIL_METHOD_MAX + 1];

	if (m->to_len + m->cc_len + m->bcc_len == 0)
		return error_set(err, DEFERRED_EINVAL, "mail",
				 "the recipient is missing: to, cc and bcc are empty\nset to");
	if (m->to_len + m->cc_len + m->bcc_len > MAIL_RECIPIENTS_MAX)
		return error_set(err, DEFERRED_EINVAL, "mail",
				 "the mail has more than %d recipients\nsend several mails", MAIL_RECIPIENTS_MAX);
	if (!m->text && !m->html)
		return error_set(err, DEFERRED_EINVAL, "mail", "text and html are both missing\nset at least one");
	if (m->reply_to.mail && !mail_is_ascii(m->reply_to.mail, strlen(m->reply_to.mail)))
		return refuse(err, "reply_to", m->reply_to.mail, MAIL_REPLY_TO_WRONG);
	if (m->calendar && refuse(err, "calendar", NULL, mail_calendar_wrong(m->calendar, method)) < 0)
		return DEFERRED_EINVAL;
	return check_line(err, "subject", m->subject);
}

static int put_mail(struct params_text *t, const struct deferred_mail *m, struct deferred_error *err)
{
	int rc = 0;

	if ((rc = check_mail(m, err)) < 0)
		return rc;
	params_open(t, NULL, '{');
	if ((m->from.mail && (rc = put_mailbox(t, "from", "from", &m->from, err)) < 0) ||
	    (m->reply_to.mail && (rc = put_mailbox(t, "reply_to", "reply_to", &m->reply_to, err)) < 0) ||
	    (rc = put_mailboxes(t, "to", m->to, m->to_len, err)) < 0 ||
	    (rc = put_mailboxes(t, "cc", m->cc, m->cc_len, err)) < 0 ||
	    (rc = put_mailboxes(t, "bcc", m->bcc, m->bcc_len, err)) < 0)
		return rc;
	if (m->subject)
		params_string(t, "subject", m->subject);
	if (m->text)
		params_string(t, "text", m->text);
	if (m->html)
		params_string(t, "html", m->html);
	if (m->calendar)
		params_string(t, "calendar", m->calendar);
	if (m->headers_len && (rc = put_headers(t, m->headers, m->headers_len, err)) < 0)
		return rc;
	if (m->attachments_len) {
		params_open(t, "attachments", '[');
		for (size_t i = 0; i < m->attachments_len && rc == 0; i++)
			rc = put_attachment(t, m, i, err);
		params_close(t, ']');
	}
	params_close(t, '}');
	return rc;
}

/* ---- sending here and now: a host for the plugin ---------------------------------------------- */

struct path {
	struct path *next;
	char text[];
};

struct now {
	const struct config *config;
	char result[512], error[512];
	char *rest;          /* params of the job for the recipients that refused; given by the plugin */
	struct path *remove; /* files to be removed after success */
};

static void keep(char *to, size_t size, const char *text, size_t len)
{
	if (len >= size)
		len = size - 1;
	memcpy(to, text, len);
	to[utf8_prefix(to, len)] = '\0';
}

static void on_result(const struct deferred_call *call, const char *text, size_t len)
{
	struct now *now = call->host_data;

	keep(now->result, sizeof(now->result), text, len);
}

static void on_error(const struct deferred_call *call, const char *text, size_t len)
{
	struct now *now = call->host_data;

	keep(now->error, sizeof(now->error), text, len);
}

/* There is no next attempt here; the caller may make one. */
static void on_retry_after(const struct deferred_call *call, int64_t delay_ms)
{
	(void)call;
	(void)delay_ms;
}

static int on_stop_asked(const struct deferred_call *call)
{
	(void)call;
	return 0;
}

/* The library prints nothing. */
static void on_log(const struct deferred_call *call, int level, const char *text, size_t len)
{
	(void)call;
	(void)level;
	(void)text;
	(void)len;
}

struct wanted {
	const char *name, *value;
};

static int match_setting(void *data, const char *name, const char *value)
{
	struct wanted *w = data;

	if (strcmp(name, w->name) != 0)
		return 0;
	w->value = value;
	return 1;
}

static const char *on_setting(const struct deferred_call *call, const char *name)
{
	const struct now *now = call->host_data;
	struct wanted w = { .name = name };

	config_each_public(now->config, match_setting, &w);
	return w.value;
}

static int on_defer(const struct deferred_call *call, const char *fn, const char *params, const char *opts)
{
	struct now *now = call->host_data;

	(void)opts; /* those of this call are kept */
	if (now->rest || strcmp(fn, "send_mail") != 0 || !(now->rest = strdup(params)))
		return -1;
	return 0;
}

static int on_remove_after(const struct deferred_call *call, const char *path)
{
	struct now *now = call->host_data;
	size_t len = strlen(path) + 1;
	struct path *p = path[0] == '/' ? malloc(sizeof(*p) + len) : NULL;

	if (!p)
		return -1;
	memcpy(p->text, path, len);
	p->next = now->remove;
	now->remove = p;
	return 0;
}

static int on_remove_beneath(const struct deferred_call *call, const char *dir, const char *path, int fd)
{
	char *ticket = beneath_ticket(dir, path, fd);
	int rc = ticket ? on_remove_after(call, ticket) : -1;

	free(ticket);
	return rc;
}

static void on_progress(const struct deferred_call *call, int64_t done, int64_t total, const char *text, size_t len)
{
	(void)call;
	(void)done;
	(void)total;
	(void)text;
	(void)len;
}

static int on_parent(const struct deferred_call *call, const char *name, const char **outcome, const char **result)
{
	(void)call;
	(void)name;
	if (outcome)
		*outcome = NULL;
	if (result)
		*result = NULL;
	return -1; /* a call that is made at once has waited for nothing */
}

static const struct deferred_host host = {
	.size = sizeof(host),
	.result = on_result,
	.error = on_error,
	.retry_after = on_retry_after,
	.stop_asked = on_stop_asked,
	.log = on_log,
	.setting = on_setting,
	.defer = on_defer,
	.remove_after = on_remove_after,
	.remove_beneath = on_remove_beneath,
	.parent = on_parent,
	.cancelled = on_stop_asked,
	.progress = on_progress,
};

static int defer_params(struct deferred *d, const char *params, const struct deferred_opts *opts, int64_t *id,
			struct deferred_error *err)
{
	int64_t got;

	if (d)
		return deferred_defer(d, "send_mail", params, opts, id, err);
	if ((got = deferred_default_defer("send_mail", params, opts)) < 0) {
		if (err)
			*err = *deferred_last_error();
		return (int)got;
	}
	if (id)
		*id = got;
	return 0;
}

/* The mail has gone out, to some at least. */
static int after_success(struct now *now, struct deferred *d, const struct deferred_opts *opts,
			 struct deferred_error *err)
{
	struct deferred_opts again = *opts;
	struct deferred_error why = { 0 };

	for (struct path *p = now->remove; p; p = p->next)
		beneath_redeem(p->text);
	if (!now->rest)
		return 0;
	if (!again.run_at && !again.delay_ms)
		again.delay_ms = config_int(now->config, "backoff_floor");
	again.key = NULL; /* it names the mail, of which this is a part */
	if (defer_params(d, now->rest, &again, NULL, &why) == 0)
		return 0;
	error_set(err, DEFERRED_EFAILED, "send_mail", "%.300s; that failed: %.180s", now->result, why.message);
	error_hint(err, "do not send the mail again to those who have it");
	return DEFERRED_EFAILED;
}

/*
 * The plugin stays loaded: it keeps its connection to the mail server, and libraries like its own do not
 * bear unloading. It is used by one thread at a time.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t lock_once = PTHREAD_ONCE_INIT;
static struct plugin_set *plugins;

/* A thread of the parent may have held it, through a whole mail; it does not exist here. The plugin sees by itself that
 * its connection is that of another process. */
static void lock_renew(void)
{
	pthread_mutex_init(&lock, NULL);
}

static void lock_setup(void)
{
	pthread_atfork(NULL, NULL, lock_renew);
}

static int send_now(struct deferred *d, const struct config *config, const char *params,
		    const struct deferred_opts *opts, struct deferred_error *err)
{
	struct now now = { .config = config };
	struct timespec ts;
	struct deferred_call call = {
		.size = sizeof(call),
		.attempt = 1,
		.fn = "send_mail",
		.params = params,
		.params_len = strlen(params),
		.label = opts->label ? opts->label : "",
		.traceparent = "",
		.parents = "",
		.host = &host,
		.host_data = &now,
	};
	const struct plugin_function *fn;
	int rc = 0, result = DEFERRED_FAILED;

	clock_gettime(CLOCK_REALTIME, &ts);
	call.created_at_us = ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
	pthread_once(&lock_once, lock_setup);
	pthread_mutex_lock(&lock);
	if (!plugins)
		rc = plugin_load_one(&plugins, config_plugin_dir(config), "send_mail", geteuid(), err);
	if (rc == 0 && (!(fn = plugin_find(plugins, "send_mail")) || !fn->fn.run))
		rc = error_set(err, DEFERRED_EPLUGIN, "send_mail",
			       "plugin 'send_mail' has no function send_mail\ninstall the plugin of this version");
	if (rc == 0)
		result = fn->fn.run(&call);
	pthread_mutex_unlock(&lock);
	if (rc == 0 && result == DEFERRED_OK) {
		rc = after_success(&now, d, opts, err);
	} else if (rc == 0) {
		rc = error_set(err, DEFERRED_EFAILED, "send_mail", "%s",
			       now.error[0] ? now.error : "failed without saying why");
		if (result != DEFERRED_DEAD)
			error_hint(err, "this may be temporary: the same call may succeed later");
	}
	while (now.remove) {
		struct path *next = now.remove->next;

		free(now.remove);
		now.remove = next;
	}
	free(now.rest);
	return rc;
}

/* ---- the call --------------------------------------------------------------------------------- */

/* The mail as a call of send_mail. `params` is given; what `opts` and `label` get lives as long as the arguments. */
static int mail_call(const struct deferred_mail *mail, const struct deferred_opts *given, char **params,
		     struct deferred_opts *opts, char label[LABEL_MAX + 1], struct deferred_error *err)
{
	struct params_text text = { 0 };
	int rc, taken;

	if (!mail)
		return error_set(err, DEFERRED_EINVAL, "mail", "the mail is missing\npass a struct deferred_mail");
	if (given)
		*opts = *given;
	if (!opts->label)
		opts->label = mail->label;
	if (!opts->label && mail->subject && *mail->subject) {
		size_t len = strnlen(mail->subject, LABEL_MAX);

		memcpy(label, mail->subject, len);
		label[utf8_prefix(label, len)] = '\0';
		opts->label = label;
	}
	rc = put_mail(&text, mail, err);
	taken = params_take(&text, params, rc == 0 ? err : NULL);
	return rc == 0 ? taken : rc;
}

int deferred_send_mail(struct deferred *d, const struct deferred_mail *mail, const struct deferred_opts *opts,
		       int64_t *id, struct deferred_error *err)
{
	struct deferred_opts all = { 0 };
	struct config *config = NULL;
	struct deferred_call_spec call;
	char label[LABEL_MAX + 1], *params = NULL;
	int rc;

	error_clear(err);
	rc = mail_call(mail, opts, &params, &all, label, err);
	if (rc == 0)
		rc = config_load(&config, NULL, err);
	call = (struct deferred_call_spec){ "send_mail", params, &all };
	if (rc == 0 && config_flag(config, "mail.defer")) {
		rc = defer_params(d, params, &all, id, err);
	} else if (rc == 0 && (rc = defer_check(&call, 0, err)) == 0) {
		/* Checked although it may need no job: what is refused for its options must not have been sent. */
		rc = send_now(d, config, params, &all, err);
		if (rc == 0 && id)
			*id = 0;
	}
	config_free(config);
	free(params);
	return rc;
}

/* A sent mail cannot be rolled back, so it is always deferred, and no config file is read. */
int deferred_send_mail_conn(struct pg_conn *conn, const struct deferred_mail *mail, const struct deferred_opts *opts,
			    int64_t *id, struct deferred_error *err)
{
	struct deferred_opts all = { 0 };
	char label[LABEL_MAX + 1], *params = NULL;
	int rc;

	error_clear(err);
	rc = mail_call(mail, opts, &params, &all, label, err);
	if (rc == 0)
		rc = deferred_defer_conn(conn, "send_mail", params, &all, id, err);
	free(params);
	return rc;
}
