/* SPDX-License-Identifier: MIT */
/*
 * The message. libcurl writes several parts, their boundaries and the Base64 of files. This file writes the bodies and
 * the header lines, with RFC 2047 for text and RFC 2231 for file names.
 *
 *   text or html alone                  text/plain or text/html, written here as a whole
 *   two of text, html and calendar      multipart/alternative, in this order
 *   with attachments                    multipart/mixed: the text, or the alternative, then the files
 *   with files that the HTML shows      multipart/related in the place of the HTML: that, then these files
 */
#include "send_mail.h"

#include "base/text/base64.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_HEADER 76 /* lines we make are no longer, RFC 2047 */
#define LINE_MAX_BODY 76
#define RELATED "multipart/related; type=\"text/html\""
#define LINE_MAX_SMTP 990

/* ---- header lines ----------------------------------------------------------------------------- */

/* A header being written, without the line end that libcurl adds. */
struct header {
	FILE *f;
	char *text;
	size_t len;
};

static bool open_header(struct header *h, const char *name)
{
	*h = (struct header){ 0 };
	if (!(h->f = open_memstream(&h->text, &h->len)))
		return false;
	fprintf(h->f, "%s: ", name);
	return true;
}

static bool end_header(struct header *h, struct curl_slist **list)
{
	bool written = !ferror(h->f);
	struct curl_slist *more = NULL;

	if (fclose(h->f) == 0 && written && (more = curl_slist_append(*list, h->text)))
		*list = more;
	free(h->text);
	return more != NULL;
}

/* Of ASCII, whatever the locale. */
static bool is_letter_or_digit(char c)
{
	return (unsigned char)c < 0x80 && isalnum((unsigned char)c);
}

/* RFC 2047: encoded words that each hold whole characters and fit into a line, of which `col` are taken. */
static void put_encoded_words(struct header *h, const char *text, size_t len, size_t col)
{
	static const char begin[] = "=?UTF-8?Q?", end[] = "?=";

	col += strlen(begin);
	for (size_t i = 0, n; i < len; i += n) {
		bool plain = is_letter_or_digit(text[i]) || text[i] == ' ';

		for (n = 1; i + n < len && ((unsigned char)text[i + n] & 0xc0) == 0x80;)
			n++;
		if (i == 0) {
			fputs(begin, h->f);
		} else if (col + (plain ? 1 : 3 * n) + strlen(end) > LINE_MAX_HEADER) {
			fprintf(h->f, "%s\r\n %s", end, begin);
			col = 1 + strlen(begin);
		}
		for (size_t j = i; j < i + n; j++)
			fprintf(h->f, plain ? "%c" : "=%02X", plain && text[j] == ' ' ? '_' : (unsigned char)text[j]);
		col += plain ? 1 : 3 * n;
	}
	if (len)
		fputs(end, h->f);
}

/* As it is, folded at spaces. */
static bool add_plain_header(struct curl_slist **list, const char *name, const char *text)
{
	size_t col = strlen(name) + 2;
	struct header h;

	if (!open_header(&h, name))
		return false;
	for (; *text; text++, col++) {
		if (*text == ' ' && text[1] != ' ' && col + 1 + strcspn(text + 1, " ") > LINE_MAX_HEADER) {
			fputs("\r\n", h.f);
			col = 0;
		}
		fputc(*text, h.f);
	}
	return end_header(&h, list);
}

/* A header of free text: as it is if that can be, else in encoded words. */
static bool add_text_header(struct curl_slist **list, const char *name, const char *text)
{
	size_t len = strlen(text), word = 0, longest = 0;
	struct header h;

	for (size_t i = 0; i < len; i++) {
		word = text[i] == ' ' ? 0 : word + 1;
		if (word > longest)
			longest = word;
	}
	if (mail_is_ascii(text, len) && !strstr(text, "=?") && longest <= 500 && text[0] != ' ' &&
	    (!len || text[len - 1] != ' '))
		return add_plain_header(list, name, text);
	if (!open_header(&h, name))
		return false;
	put_encoded_words(&h, text, len, strlen(name) + 2);
	return end_header(&h, list);
}

/* The name without the backslashes that its quoted string needed. Given: free(). NULL: out of memory. */
static char *message_name_of(const struct address *a)
{
	char *name = strndup(a->label, a->label_len), *p = name;

	for (size_t i = 0; name && i < a->label_len; i++) {
		if (a->escaped && a->label[i] == '\\' && i + 1 < a->label_len)
			i++;
		*p++ = a->label[i];
	}
	if (name)
		*p = '\0';
	return name;
}

static bool put_name(struct header *h, const struct address *a)
{
	static const char longest_header[] = "X-Deferred-To: ";
	char *name = message_name_of(a);
	size_t len = name ? strlen(name) : 0;
	bool fold = true;

	if (mail_is_ascii(name, len) && len <= 60 && !memmem(name, len, "=?", 2)) {
		fputc('"', h->f);
		for (size_t i = 0; i < len; i++)
			fprintf(h->f, "%s%c", name[i] == '"' || name[i] == '\\' ? "\\" : "", name[i]);
		fputc('"', h->f);
		fold = len + strlen(a->mail) > LINE_MAX_HEADER - 20; /* a header's name, quotes, brackets */
	} else {
		put_encoded_words(h, name, len, strlen(longest_header));
	}
	fputs(fold ? "\r\n " : " ", h->f);
	free(name);
	return name != NULL;
}

static bool put_address(struct header *h, const struct address *a, bool utf8)
{
	static const char longest_header[] = "X-Deferred-To: ";

	/* Where the address itself cannot stand: a group of nobody, with it as the name (RFC 6857, 3.1.2). */
	if (a->utf8 && !utf8) {
		put_encoded_words(h, a->mail, strlen(a->mail), strlen(longest_header));
		fputs(" :;", h->f);
		return true;
	}
	if (a->label_len == 0) {
		fputs(a->mail, h->f);
		return true;
	}
	if (!put_name(h, a))
		return false;
	fprintf(h->f, "<%s>", a->mail);
	return true;
}

static bool add_address_header(struct sending *s, const char *name, const struct addresses *const *groups, size_t n)
{
	const char *between = "";
	bool written = true;
	struct header h;

	if (!open_header(&h, name))
		return false;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < groups[i]->len; j++) {
			fputs(between, h.f);
			written &= put_address(&h, &groups[i]->v[j], s->utf8);
			between = ",\r\n ";
		}
	return end_header(&h, &s->headers) && written;
}

static bool message_add_date(struct sending *s)
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	int64_t created_us = s->call->created_at_us, ready_us = DEFERRED_HAS(s->call, ready_at) ? s->call->ready_at : 0;
	int64_t at_us = ready_us > created_us ? ready_us : created_us;
	time_t at = at_us > 0 ? (time_t)(at_us / 1000000) : time(NULL);
	struct header h;
	struct tm tm;

	gmtime_r(&at, &tm);
	if (!open_header(&h, "Date"))
		return false;
	fprintf(h.f, "%s, %d %s %d %02d:%02d:%02d +0000", days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon],
		tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
	return end_header(&h, &s->headers);
}

static bool add_message_id(struct sending *s)
{
	struct header h;

	if (!open_header(&h, "Message-ID"))
		return false;
	fprintf(h.f, "<%s>", s->message_id);
	return end_header(&h, &s->headers);
}

/* RFC 2231 where quotes are not enough. */
static bool add_file_name(struct curl_slist **list, const char *disposition, const char *name)
{
	bool simple = mail_is_ascii(name, strlen(name)) && !strpbrk(name, "\"\\%=?") && strlen(name) <= 60;
	struct header h;

	if (!open_header(&h, "Content-Disposition"))
		return false;
	fprintf(h.f, "%s;\r\n %s", disposition, simple ? "filename=\"" : "filename*=UTF-8''");
	for (const char *p = name; *p; p++)
		fprintf(h.f, simple || is_letter_or_digit(*p) || strchr("-._", *p) ? "%c" : "%%%02X",
			(unsigned char)*p);
	if (simple)
		fputc('"', h.f);
	return end_header(&h, list);
}

static bool add_own_headers(struct sending *s)
{
	bool ok = true;

	for (size_t i = 0; i < s->own_len && ok; i++)
		ok = (s->own[i].plain ? add_plain_header : add_text_header)(&s->headers, s->own[i].name,
									    s->own[i].text);
	return ok;
}

static bool message_add_headers(struct sending *s)
{
	const struct addresses *from = &s->from, *reply_to = &s->reply_to, *to = &s->to, *cc = &s->cc;
	const struct addresses *all[] = { &s->to, &s->cc, &s->bcc };
	struct curl_slist **list = &s->headers;

	return message_add_date(s) && add_message_id(s) && add_address_header(s, "From", &from, 1) &&
	       (!s->reply_to.len || add_address_header(s, "Reply-To", &reply_to, 1)) &&
	       (!s->to.len || add_address_header(s, "To", &to, 1)) &&
	       (s->to.len || s->cc.len || add_text_header(list, "To", "undisclosed-recipients:;")) &&
	       (!s->cc.len || add_address_header(s, "Cc", &cc, 1)) &&
	       (!s->redirected || add_address_header(s, "X-Deferred-To", all, 3)) &&
	       add_text_header(list, "Subject", s->subject ? s->subject : "") && add_own_headers(s);
}

/* ---- parts ------------------------------------------------------------------------------------ */

char *with_crlf(const char *text, size_t len)
{
	char *copy = malloc(2 * len + 1), *p = copy;

	if (!copy)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] != '\r' && text[i] != '\n') {
			*p++ = text[i];
			continue;
		}
		if (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n')
			i++;
		*p++ = '\r';
		*p++ = '\n';
	}
	*p = '\0';
	return copy;
}

enum encoding { SEVEN_BIT, QUOTED_PRINTABLE, BASE64 };

/* Readable text is not encoded. */
static enum encoding encoding_for(const char *text)
{
	size_t line = 0, len = 0, high = 0;
	bool seven_bit = true;

	for (; text[len]; len++) {
		unsigned char c = (unsigned char)text[len];

		line = c == '\n' ? 0 : line + 1;
		high += c >= 0x80;
		if (c >= 0x7f || (c < ' ' && c != '\t' && c != '\r' && c != '\n') || line > LINE_MAX_SMTP)
			seven_bit = false;
	}
	if (seven_bit)
		return SEVEN_BIT;
	return high * 4 < len ? QUOTED_PRINTABLE : BASE64;
}

/* RFC 2045, 6.7. A blank at the end of a line would be lost. */
static void put_quoted_printable(FILE *f, const char *text)
{
	for (size_t col = 0; *text; text++) {
		unsigned char c = (unsigned char)*text;
		bool last = !text[1] || text[1] == '\r', blank = c == ' ' || c == '\t';
		bool plain = (c > ' ' && c <= '~' && c != '=') || (blank && !last);

		if (c == '\r' || c == '\n') {
			fputc(c, f);
			col = 0;
			continue;
		}
		if (col + (plain ? 1 : 3) + !last > LINE_MAX_BODY) {
			fputs("=\r\n", f);
			col = 0;
		}
		col += (size_t)fprintf(f, plain ? "%c" : "=%02X", c);
	}
}

static void put_base64(FILE *f, const char *text)
{
	char line[LINE_MAX_BODY + 1];

	for (size_t at = 0, len = strlen(text), n; at < len; at += n) {
		n = len - at < sizeof(line) / 4 * 3 ? len - at : sizeof(line) / 4 * 3;
		base64_encode(text + at, n, line);
		fprintf(f, "%s\r\n", line);
	}
}

/* Given: free(). NULL: out of memory. */
static char *encode_body(const char *body, enum encoding *encoding)
{
	char *text = with_crlf(body, strlen(body)), *encoded = NULL;
	size_t len;
	FILE *f;

	*encoding = text ? encoding_for(text) : SEVEN_BIT;
	if (*encoding == SEVEN_BIT)
		return text;
	if ((f = open_memstream(&encoded, &len))) {
		(*encoding == BASE64 ? put_base64 : put_quoted_printable)(f, text);
		if (fclose(f) != 0) {
			free(encoded);
			encoded = NULL;
		}
	}
	free(text);
	return encoded;
}

static bool message_add_line(struct curl_slist **list, const char *line)
{
	struct curl_slist *more = curl_slist_append(*list, line);

	if (more)
		*list = more;
	return more != NULL;
}

static bool add_encoding(struct curl_slist **list, enum encoding encoding)
{
	return message_add_line(list, encoding == SEVEN_BIT ? "Content-Transfer-Encoding: 7bit"
				      : encoding == BASE64  ? "Content-Transfer-Encoding: base64"
							    : "Content-Transfer-Encoding: quoted-printable");
}

/* Encoded here, so that its size is known: libcurl announces that of the whole mail. */
static bool add_body(curl_mime *mime, const char *type, const char *body)
{
	curl_mimepart *part = curl_mime_addpart(mime);
	struct curl_slist *headers = NULL;
	enum encoding encoding;
	char *text = encode_body(body, &encoding);
	bool ok = part && text && curl_mime_data(part, text, CURL_ZERO_TERMINATED) == CURLE_OK &&
		  curl_mime_type(part, type) == CURLE_OK && add_encoding(&headers, encoding);

	free(text);
	if (ok && curl_mime_headers(part, headers, 1) == CURLE_OK)
		return true;
	curl_slist_free_all(headers);
	return false;
}

/* The descriptor that was checked is read, not its path again. The file must still be as long as then. */
static size_t on_read(char *out, size_t size, size_t n, void *data)
{
	struct attachment *a = data;
	size_t want = a->size - a->offset;
	ssize_t got;

	if (want > size * n)
		want = size * n;
	if (want == 0)
		return 0;
	got = pread(a->fd, out, want, (off_t)a->offset);
	if (got <= 0) {
		fail(a->sending, 0, "cannot read attachment '%.300s': %s", a->path,
		     got < 0 ? strerror(errno) : "it has become shorter");
		return CURL_READFUNC_ABORT;
	}
	a->offset += (size_t)got;
	return (size_t)got;
}

static int on_seek(void *data, curl_off_t offset, int origin)
{
	struct attachment *a = data;

	if (origin != SEEK_SET || offset < 0 || (size_t)offset > a->size)
		return CURL_SEEKFUNC_CANTSEEK;
	a->offset = (size_t)offset;
	return CURL_SEEKFUNC_OK;
}

static bool add_content_id(struct curl_slist **list, const char *cid)
{
	struct header h;

	if (!open_header(&h, "Content-ID"))
		return false;
	fprintf(h.f, "<%s>", cid);
	return end_header(&h, list);
}

static bool add_attachment(curl_mime *into, struct attachment *a)
{
	curl_mimepart *part = curl_mime_addpart(into);
	struct curl_slist *headers = NULL;

	if (!part || !add_file_name(&headers, a->cid ? "inline" : "attachment", a->name) ||
	    (a->cid && !add_content_id(&headers, a->cid)) || curl_mime_headers(part, headers, 1) != CURLE_OK) {
		curl_slist_free_all(headers);
		return false;
	}
	a->offset = 0;
	if ((a->content ? curl_mime_data(part, a->content, a->size)
			: curl_mime_data_cb(part, (curl_off_t)a->size, on_read, on_seek, NULL, a)) != CURLE_OK)
		return false;
	return curl_mime_type(part, a->type) == CURLE_OK &&
	       curl_mime_encoder(part, a->seven_bit ? "7bit" : "base64") == CURLE_OK;
}

/* Those that the HTML shows, or the others. */
static bool add_attachments(struct sending *s, curl_mime *into, bool shown)
{
	bool ok = true;

	for (size_t i = 0; i < s->attachments_len && ok; i++)
		if (!!s->attachments[i].cid == shown)
			ok = add_attachment(into, &s->attachments[i]);
	return ok;
}

/* Parts within a part. Freed with it. */
static curl_mime *add_multipart(curl_mime *into, const char *type, CURL *handle)
{
	curl_mime *mime = curl_mime_init(handle);
	curl_mimepart *part = mime ? curl_mime_addpart(into) : NULL;

	if (part && curl_mime_type(part, type) == CURLE_OK && curl_mime_subparts(part, mime) == CURLE_OK)
		return mime;
	curl_mime_free(mime);
	return NULL;
}

static const char text_type[] = "text/plain; charset=UTF-8", html_type[] = "text/html; charset=UTF-8";

/* `related`: it goes into one that is for the HTML alone. */
static bool add_html(struct sending *s, curl_mime *into, bool related, CURL *handle)
{
	if (s->shown_len && !related)
		into = add_multipart(into, RELATED, handle);
	return into && add_body(into, html_type, s->html) && (!s->shown_len || add_attachments(s, into, true));
}

static bool add_bodies(struct sending *s, curl_mime *into, bool related, CURL *handle)
{
	char calendar_type[sizeof("text/calendar; charset=UTF-8; method=") + MAIL_METHOD_MAX];

	snprintf(calendar_type, sizeof(calendar_type), "text/calendar; charset=UTF-8; method=%s", s->method);
	return (!s->text || add_body(into, text_type, s->text)) && (!s->html || add_html(s, into, related, handle)) &&
	       (!s->calendar || add_body(into, calendar_type, s->calendar));
}

static bool add_parts(struct sending *s, CURL *handle)
{
	bool several = !!s->text + !!s->html + !!s->calendar > 1, files = s->attachments_len > s->shown_len;
	const char *type = several ? "Content-Type: multipart/alternative" : "Content-Type: " RELATED;
	curl_mime *bodies = s->mime = curl_mime_init(handle);

	if (!bodies || (several && files && !(bodies = add_multipart(s->mime, "multipart/alternative", handle))))
		return false;
	/* Without a type of ours it is multipart/mixed. libcurl adds the boundary. */
	if (!files && !message_add_line(&s->headers, type))
		return false;
	return add_bodies(s, bodies, !files && !several, handle) && add_attachments(s, s->mime, false);
}

/* One text is no multipart, which libcurl cannot say. */
static bool write_message(struct sending *s)
{
	enum encoding encoding;
	char *body = encode_body(s->text ? s->text : s->html, &encoding), type[64];
	bool ok = false;
	FILE *f;

	snprintf(type, sizeof(type), "Content-Type: %s", s->text ? text_type : html_type);
	if (body && message_add_line(&s->headers, "MIME-Version: 1.0") && message_add_line(&s->headers, type) &&
	    add_encoding(&s->headers, encoding) && (f = open_memstream(&s->message, &s->message_len))) {
		for (const struct curl_slist *line = s->headers; line; line = line->next)
			fprintf(f, "%s\r\n", line->data);
		fprintf(f, "\r\n%s", body);
		ok = !ferror(f);
		ok = fclose(f) == 0 && ok;
	}
	free(body);
	return ok;
}

int compose(struct sending *s)
{
	CURL *handle = smtp_handle();
	bool single = !!s->text + !!s->html + !!s->calendar == 1 && !s->attachments_len, ok;

	if (!handle)
		return fail(s, DEFERRED_FAILED, "libcurl does not start");
	ok = message_add_headers(s) && (single ? write_message(s) : add_parts(s, handle));
	return ok ? DEFERRED_OK : fail(s, DEFERRED_FAILED, "out of memory");
}
