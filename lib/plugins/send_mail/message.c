/* SPDX-License-Identifier: MIT */
/*
 * The message. libcurl writes its parts, their boundaries and encodings; written here is what it
 * passes on as it is: header lines, with RFC 2047 for their text and RFC 2231 for file names.
 *
 *   text or html alone      multipart/mixed of that one part
 *   text and html           multipart/alternative, text first
 *   with attachments        multipart/mixed: the text, or the alternative of both, then the files
 *   with what the HTML shows, multipart/related in the place of the HTML: that, then these files
 */
#include "send_mail.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_HEADER 76 /* lines we make are no longer, RFC 2047 */
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

static bool is_ascii(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
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
	if (is_ascii(text, len) && !strstr(text, "=?") && longest <= 500 && text[0] != ' ' && (!len || text[len - 1] != ' '))
		return add_plain_header(list, name, text);
	if (!open_header(&h, name))
		return false;
	put_encoded_words(&h, text, len, strlen(name) + 2);
	return end_header(&h, list);
}

static void put_address(struct header *h, const struct address *a, bool utf8)
{
	static const char longest_name[] = "X-Deferred-To: ";
	bool fold = true;

	/* Where the address itself cannot stand: a group of nobody, with it as the name (RFC 6857, 3.1.2). */
	if (a->utf8 && !utf8) {
		put_encoded_words(h, a->mail, strlen(a->mail), strlen(longest_name));
		fputs(" :;", h->f);
		return;
	}
	if (a->label_len == 0) {
		fputs(a->mail, h->f);
		return;
	}
	if (is_ascii(a->label, a->label_len) && a->label_len <= 60 && !memmem(a->label, a->label_len, "=?", 2)) {
		fputc('"', h->f);
		for (size_t i = 0; i < a->label_len; i++)
			fprintf(h->f, "%s%c", a->label[i] == '"' || a->label[i] == '\\' ? "\\" : "", a->label[i]);
		fputc('"', h->f);
		fold = a->label_len + strlen(a->mail) > LINE_MAX_HEADER - 20; /* a header's name, quotes, brackets */
	} else {
		put_encoded_words(h, a->label, a->label_len, strlen(longest_name));
	}
	fprintf(h->f, "%s <%s>", fold ? "\r\n" : "", a->mail);
}

static bool add_address_header(struct sending *s, const char *name, const struct addresses *const *groups, size_t n)
{
	const char *between = "";
	struct header h;

	if (!open_header(&h, name))
		return false;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < groups[i]->len; j++) {
			fputs(between, h.f);
			put_address(&h, &groups[i]->v[j], s->utf8);
			between = ",\r\n ";
		}
	return end_header(&h, &s->headers);
}

static bool add_date(struct sending *s)
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	time_t at = s->call->created_at_us > 0 ? (time_t)(s->call->created_at_us / 1000000) : time(NULL);
	struct header h;
	struct tm tm;

	gmtime_r(&at, &tm);
	if (!open_header(&h, "Date"))
		return false;
	fprintf(h.f, "%s, %d %s %d %02d:%02d:%02d +0000", days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900,
		tm.tm_hour, tm.tm_min, tm.tm_sec);
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
	bool simple = is_ascii(name, strlen(name)) && !strpbrk(name, "\"\\%=?") && strlen(name) <= 60;
	struct header h;

	if (!open_header(&h, "Content-Disposition"))
		return false;
	fprintf(h.f, "%s;\r\n %s", disposition, simple ? "filename=\"" : "filename*=UTF-8''");
	for (const char *p = name; *p; p++)
		fprintf(h.f, simple || is_letter_or_digit(*p) || strchr("-._", *p) ? "%c" : "%%%02X", (unsigned char)*p);
	if (simple)
		fputc('"', h.f);
	return end_header(&h, list);
}

static bool add_own_headers(struct sending *s)
{
	bool ok = true;

	for (size_t i = 0; i < s->own_len && ok; i++)
		ok = (s->own[i].plain ? add_plain_header : add_text_header)(&s->headers, s->own[i].name, s->own[i].text);
	return ok;
}

static bool add_headers(struct sending *s)
{
	const struct addresses *from = &s->from, *reply_to = &s->reply_to, *to = &s->to, *cc = &s->cc;
	const struct addresses *all[] = { &s->to, &s->cc, &s->bcc };
	struct curl_slist **list = &s->headers;

	return add_date(s) && add_message_id(s) && add_address_header(s, "From", &from, 1) &&
	       (!s->reply_to.len || add_address_header(s, "Reply-To", &reply_to, 1)) &&
	       (!s->to.len || add_address_header(s, "To", &to, 1)) &&
	       (s->to.len || s->cc.len || add_text_header(list, "To", "undisclosed-recipients:;")) &&
	       (!s->cc.len || add_address_header(s, "Cc", &cc, 1)) &&
	       (!s->redirected || add_address_header(s, "X-Deferred-To", all, 3)) &&
	       add_text_header(list, "Subject", s->subject ? s->subject : "") && add_own_headers(s);
}

/* ---- parts ------------------------------------------------------------------------------------ */

/* With CRLF for each line end, as libcurl's quoted-printable wants it. Given: free(). */
static char *with_crlf(const char *text)
{
	char *copy = malloc(2 * strlen(text) + 1), *p = copy;

	if (!copy)
		return NULL;
	for (; *text; text++) {
		if (*text != '\r' && *text != '\n') {
			*p++ = *text;
			continue;
		}
		if (text[0] == '\r' && text[1] == '\n')
			text++;
		*p++ = '\r';
		*p++ = '\n';
	}
	*p = '\0';
	return copy;
}

/*
 * What can be read as it is stays so. Not quoted-printable beside attachments: its size is not known
 * beforehand, and then libcurl cannot announce that of the message, which is large.
 */
static const char *encoder_of(const struct sending *s, const char *text)
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
		return "7bit";
	return high * 4 < len && !s->attachments_len ? "quoted-printable" : "base64";
}

static bool add_body(const struct sending *s, curl_mime *mime, const char *type, const char *body)
{
	curl_mimepart *part = curl_mime_addpart(mime);
	char *text = with_crlf(body);
	bool ok = part && text && curl_mime_data(part, text, CURL_ZERO_TERMINATED) == CURLE_OK &&
		  curl_mime_type(part, type) == CURLE_OK && curl_mime_encoder(part, encoder_of(s, text)) == CURLE_OK;

	free(text);
	return ok;
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
		fail(a->sending, 0, "cannot read attachment \"%.300s\": %s", a->path,
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

	if (!part || !add_file_name(&headers, a->cid ? "inline" : "attachment", a->name) || (a->cid && !add_content_id(&headers, a->cid)) ||
	    curl_mime_headers(part, headers, 1) != CURLE_OK) {
		curl_slist_free_all(headers);
		return false;
	}
	a->offset = 0;
	if ((a->content ? curl_mime_data(part, a->content, a->size)
			: curl_mime_data_cb(part, (curl_off_t)a->size, on_read, on_seek, NULL, a)) != CURLE_OK)
		return false;
	return curl_mime_type(part, a->type) == CURLE_OK && curl_mime_encoder(part, "base64") == CURLE_OK;
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

static bool add_html(struct sending *s, curl_mime *into, CURL *handle)
{
	curl_mime *related = s->shown_len ? add_multipart(into, "multipart/related; type=\"text/html\"", handle) : into;

	return related && add_body(s, related, "text/html; charset=UTF-8", s->html) && (!s->shown_len || add_attachments(s, related, true));
}

static bool add_bodies(struct sending *s, curl_mime *into, CURL *handle)
{
	if ((s->text || !s->html) && !add_body(s, into, "text/plain; charset=UTF-8", s->text ? s->text : ""))
		return false;
	return !s->html || add_html(s, into, handle);
}

static bool add_parts(struct sending *s, CURL *handle)
{
	bool both = s->text && s->html, files = s->attachments_len > s->shown_len;
	curl_mime *bodies = s->mime;
	struct curl_slist *more;

	if (both && files && !(bodies = add_multipart(s->mime, "multipart/alternative", handle)))
		return false;
	/* libcurl adds the boundary. */
	if (both && !files) {
		if (!(more = curl_slist_append(s->headers, "Content-Type: multipart/alternative")))
			return false;
		s->headers = more;
	}
	return add_bodies(s, bodies, handle) && add_attachments(s, s->mime, false);
}

int compose(struct sending *s)
{
	CURL *handle = smtp_handle();
	bool ok;

	if (!handle)
		return fail(s, DEFERRED_FAILED, "libcurl does not start");
	ok = (s->mime = curl_mime_init(handle)) && add_headers(s) && add_parts(s, handle);
	return ok ? DEFERRED_OK : fail(s, DEFERRED_FAILED, "out of memory");
}
