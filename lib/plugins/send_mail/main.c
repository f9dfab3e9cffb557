/* SPDX-License-Identifier: MIT */
/*
 * send_mail - deliver one mail to the SMTP server of section [mail].
 *
 * params  {"from": A, "to": A, "cc": A, "bcc": A, "reply_to": A, "subject": TEXT, "text": TEXT, "html": TEXT,
 *         "calendar": TEXT,
 *         "attachments": [{"name": TEXT, "content": TEXT, "type": TEXT, "cid": ID},
 *                         {"name": TEXT, "content_base64": TEXT},
 *                         {"path": PATH, "name": TEXT, "type": TEXT, "delete_after_send": true}],
 *         "headers": {NAME: TEXT, ...}, "message_id": ID, "label": TEXT, "deliver_to": [ADDRESS, ...]}
 *         A is "a@b", "Name <a@b>" or {"mail": "a@b", "label": "Name"}; to, cc and bcc also take a list.
 *         deferred_functions(7) tells what each of them means. deliver_to: the recipients that have yet to get this
 *         mail, where that is not all of them.
 *
 * Order of work: read the params, compose the message, talk to the server, judge what it said.
 *
 * Rules.
 * - libcurl passes text on as it is. mail_line_wrong() and mail_address_wrong() refuse all that could end a line. No
 *   params can therefore add a header or a command.
 * - A recipient that was accepted never gets the mail again. The server's answer to each RCPT is kept. If only some
 *   were accepted, the rest becomes a job of its own, in the transaction that records this success.
 * - Wrong settings and an unreachable server are no fault of the mail: DEFERRED_UNREADY, with a hint for the operator.
 *   Answers after the login are about the mail.
 * - Until the final dot was sent nothing has been delivered. After it, without an answer, the outcome is
 *   unknown: the mail is sent again, with the same Message-ID.
 * - A producer may have no right to files that can be read here. PATH is refused unless the setting mail.attachment_dir
 *   names a folder and PATH lies below it. This is checked at reading and again at removal.
 * - Addresses outside of ASCII need a server that offers SMTPUTF8. Without it these recipients are refused for good.
 *   The others get the mail with such addresses rewritten by RFC 6857.
 * - The connection stays open for the next mail of the same runner.
 */
#include "send_mail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- judging ---------------------------------------------------------------------------------- */

/* The refused recipients with the server's words. Given: free(). NULL: out of memory. */
static char *refused_text(const struct sending *s)
{
	const char *between = "";
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	for (size_t i = 0; i < s->rcpt.len; i++)
		if (s->rcpt.v[i].code / 100 != 2) {
			fprintf(f, "%s%s: %s", between, s->rcpt.v[i].mail, s->rcpt.v[i].answer);
			between = "; ";
		}
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* A job for those who did not get it: the same mail, with the same Message-ID. Their files stay until then. */
static int defer_rest(struct sending *s, bool temporary)
{
	json_t *params = json_copy(s->params), *rest = json_array(), *opts = json_object();
	char *params_text = NULL, *opts_text = NULL;
	int rc = -1;

	for (size_t i = 0; i < s->rcpt.len; i++)
		if (s->rcpt.v[i].code / 100 != 2)
			json_array_append_new(rest, json_string(s->rcpt.v[i].mail));
	json_object_set(params, "deliver_to", rest);
	json_object_set_new(params, "message_id", json_string(s->message_id));
	if (s->call->label[0])
		json_object_set_new(opts, "label", json_string(s->call->label));
	if (temporary)
		json_object_set_new(opts, "delay", json_sprintf("%ldms", setting_number(s, "backoff_floor", 10000)));
	params_text = json_dumps(params, JSON_COMPACT);
	opts_text = json_dumps(opts, JSON_COMPACT);
	if (params_text && opts_text)
		rc = s->call->host->defer(s->call, "send_mail", params_text, opts_text);
	free(params_text);
	free(opts_text);
	json_decref(params);
	json_decref(rest);
	json_decref(opts);
	return rc;
}

/* An older host could remove the path alone, which may lead to another file by then: the file stays. */
static void remove_sent(const struct sending *s, const struct attachment *a)
{
	static const char why[] =
		"an attachment is not removed: this host cannot tell whether it is still the same file";

	if (DEFERRED_HAS(s->call->host, remove_beneath))
		s->call->host->remove_beneath(s->call, setting(s, "mail.attachment_dir"), a->path, a->fd);
	else
		s->call->host->log(s->call, DEFERRED_LOG_WARNING, why, sizeof(why) - 1);
}

static int accepted(struct sending *s)
{
	bool temporary = false, deferred = true;
	char *refused_ones = NULL, *text = NULL;
	size_t refused = 0;
	int rc = DEFERRED_OK;

	for (size_t i = 0; i < s->rcpt.len; i++) {
		refused += s->rcpt.v[i].code / 100 != 2;
		temporary |= s->rcpt.v[i].code / 100 == 4;
	}
	if (refused) {
		deferred = defer_rest(s, temporary) == 0;
		refused_ones = refused_text(s);
	}
	if (asprintf(&text, "%s took it for %zu of %zu: %s%s%s", s->where, s->rcpt.len - refused, s->rcpt.len, s->reply,
		     !refused   ? ""
		     : deferred ? "; deferred for the rest: "
				: "; the rest could not be deferred: ",
		     refused_ones ? refused_ones : "") < 0)
		text = NULL;
	/* Not to be sent again to those who have it. */
	if (!deferred)
		rc = fail(s, DEFERRED_DEAD, "%s", text ? text : "the rest could not be deferred");
	else if (text)
		s->call->host->result(s->call, text, strlen(text));
	free(refused_ones);
	free(text);
	for (size_t i = 0; i < s->attachments_len && !refused; i++)
		if (s->attachments[i].remove)
			remove_sent(s, &s->attachments[i]);
	return rc;
}

/* The server wants a login, or a safer one (RFC 4954, 6), or encryption (RFC 3207, 4): what it was asked does not
 * matter. */
static bool asks_for_login(int code)
{
	return code == 530 || code == 534 || code == 535 || code == 538;
}

/* A hint for the config file if the conversation ended before the mail; "" if there is none. */
static const char *remedy(const struct sending *s, CURLcode code)
{
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return "; hint: set mail { ca_file = \"FILE\" } to the PEM certificate of the server's signer, "
		       "and mail { host } to the name in its certificate";
	case CURLE_SSL_CACERT_BADFILE:
		return "; hint: set mail { ca_file } to a file of PEM certificates that the user of functions can read";
	case CURLE_USE_SSL_FAILED:
		return "; hint: mail { tls = \"starttls\" } needs a server that offers it, "
		       "often at mail { port = 587 }";
	case CURLE_SSL_CONNECT_ERROR:
		return "; hint: set mail { tls } and mail { port } to 'tls' and 465, 'starttls' and 587, "
		       "or 'none' and 25";
	default:
		break;
	}
	if (s->stage == AUTH || asks_for_login(s->reply_code) || code == CURLE_LOGIN_DENIED)
		return "; hint: check mail { user, password_file, tls }";
	return s->stage == CONNECT ? "; hint: set mail { host = \"...\" port = ... } to the mail server" : "";
}

/* Of recipients it has to say so to each: what one is refused for may be that one's. */
static bool wants_login(const struct sending *s)
{
	bool each = true;

	for (size_t i = 0; i < s->asked && s->stage == RCPT_TO; i++)
		each &= asks_for_login(s->rcpt.v[i].code);
	return each && asks_for_login(s->reply_code);
}

/*
 * Nobody got the mail, or that is unknown. Only a 5xx answer about the sender, the mail or every recipient is final.
 * Earlier errors are about the server and may change.
 */
static int main_judge(struct sending *s, CURLcode code)
{
	bool temporary = false;
	char *refused;

	if (code == CURLE_ABORTED_BY_CALLBACK && s->why[0])
		return DEFERRED_DEAD;
	if (!failed_by_reply(s, code)) {
		const char *text = s->curl_error[0] ? s->curl_error : curl_easy_strerror(code);
		const char *stage = stages[s->stage].text;

		if (code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR)
			text = "connection lost";
		if (s->message_sent)
			stage = "no answer to the message, which may have been delivered";
		if (!s->message_sent && !stages[s->stage].about_mail && code != CURLE_OUT_OF_MEMORY)
			return fail(s, DEFERRED_UNREADY, "%s: %s: %.400s%s", s->where, stage, text, remedy(s, code));
		return fail(s, DEFERRED_FAILED, "%s: %s: %s", s->where, stage, text);
	}
	if (!stages[s->stage].about_mail || wants_login(s))
		return fail(s, DEFERRED_UNREADY, "%s: %s: %.400s%s", s->where, stages[s->stage].text, s->reply,
			    remedy(s, code));
	if (s->stage != RCPT_TO)
		return fail(s, s->reply_code >= 500 ? DEFERRED_DEAD : DEFERRED_FAILED, "%s: %s: %s", s->where,
			    stages[s->stage].text, s->reply);
	for (size_t i = 0; i < s->rcpt.len; i++)
		temporary |= s->rcpt.v[i].code < 500;
	refused = refused_text(s);
	fail(s, 0, "%s: RCPT TO: %.800s", s->where, refused ? refused : s->reply);
	free(refused);
	return temporary ? DEFERRED_FAILED : DEFERRED_DEAD;
}

/* ---- the function ----------------------------------------------------------------------------- */

static void uncompose(struct sending *s)
{
	curl_mime_free(s->mime);
	curl_slist_free_all(s->headers);
	free(s->message);
	s->mime = NULL;
	s->headers = NULL;
	s->message = NULL;
}

static void sending_free(struct sending *s)
{
	for (size_t i = 0; i < s->attachments_len; i++) {
		if (s->attachments[i].fd >= 0)
			close(s->attachments[i].fd);
		free(s->attachments[i].decoded);
		free(s->attachments[i].own_type);
	}
	uncompose(s);
	free(s->attachments);
	free(s->own);
	free(s->from.v);
	free(s->reply_to.v);
	free(s->to.v);
	free(s->cc.v);
	free(s->bcc.v);
	free(s->rcpt.v);
	json_decref(s->params);
	free(s);
}

/* The same again, to recipients whose addresses this server accepts. */
static int send_in_ascii(struct sending *s, CURLcode *code)
{
	int rc = leave_out_utf8(s);

	uncompose(s);
	if (rc == DEFERRED_OK && (rc = compose(s)) == DEFERRED_OK)
		rc = talk(s, code);
	return rc;
}

static int send_mail(const struct deferred_call *call)
{
	struct sending *s = calloc(1, sizeof(*s));
	CURLcode code = CURLE_OK;
	int rc;

	if (!s) {
		call->host->error(call, "out of memory", 13);
		return DEFERRED_FAILED;
	}
	s->call = call;
	if ((rc = take_params(s)) == DEFERRED_OK && (rc = compose(s)) == DEFERRED_OK &&
	    (rc = talk(s, &code)) == DEFERRED_OK && s->no_utf8)
		rc = send_in_ascii(s, &code);
	if (rc == DEFERRED_OK) {
		bool taken = s->message_sent && s->reply_ended && s->reply_code / 100 == 2;

		rc = taken ? accepted(s) : main_judge(s, code);
	}
	if (rc != DEFERRED_OK)
		call->host->error(call, s->why, strlen(s->why));
	sending_free(s);
	return rc;
}

static const struct deferred_function functions[] = {
	{ .name = "send_mail", .run = send_mail },
};

DEFERRED_PLUGIN("send_mail", "1.0", functions);
