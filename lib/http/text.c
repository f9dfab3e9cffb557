/* SPDX-License-Identifier: MIT */
#include "http/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAST_SECOND 253402300799 /* 9999-12-31 23:59:59 */

static const char *const days[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
static const char *const months[] = {
	"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

long text_percent_decode(char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '%') {
			int high = i + 2 < len ? hex_digit(text[i + 1]) : -1,
			    low = i + 2 < len ? hex_digit(text[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -1;
			text[n++] = (char)(high << 4 | low);
			i += 2;
		} else {
			text[n++] = text[i];
		}
	}
	return text_is_utf8(text, n) ? (long)n : -1;
}

bool text_is_utf8(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + len;

	while (p < end) {
		unsigned c = *p++, min, more;

		if (c == 0)
			return false;
		if (c < 0x80)
			continue;
		if (c >= 0xc2 && c <= 0xdf) {
			more = 1, min = 0x80, c &= 0x1f;
		} else if (c >= 0xe0 && c <= 0xef) {
			more = 2, min = 0x800, c &= 0x0f;
		} else if (c >= 0xf0 && c <= 0xf4) {
			more = 3, min = 0x10000, c &= 0x07;
		} else {
			return false;
		}
		for (; more > 0; more--, p++) {
			if (p == end || (*p & 0xc0) != 0x80)
				return false;
			c = c << 6 | (*p & 0x3f);
		}
		if (c < min || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return false;
	}
	return true;
}

bool text_whole(const char *text, int64_t *number)
{
	const char *p = text + (text[0] == '-');

	if (!*p)
		return false;
	for (; *p; p++)
		if (!isdigit((unsigned char)*p))
			return false;
	*number = strtoll(text, NULL, 10); /* beyond the range it is the end of it */
	return true;
}

void text_rfc1123(int64_t us, char text[TEXT_RFC1123_SIZE])
{
	int64_t s = us / 1000000 - (us % 1000000 < 0);
	time_t t = (time_t)(s > LAST_SECOND ? LAST_SECOND : s < 0 ? 0 : s);
	struct tm tm;

	gmtime_r(&t, &tm);
	/* Not by strftime(): names of days and months are English in every locale. */
	snprintf(text, TEXT_RFC1123_SIZE, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[tm.tm_wday],
		 (unsigned)tm.tm_mday % 100u, months[tm.tm_mon], (unsigned)(tm.tm_year + 1900) % 10000u,
		 (unsigned)tm.tm_hour % 100u, (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u);
}

/* So many digits, as a number. Moves *p behind them. */
static bool parse_digits(const char **p, int n, int *number)
{
	*number = 0;
	for (; n > 0; n--, (*p)++) {
		if (!isdigit((unsigned char)**p))
			return false;
		*number = *number * 10 + (**p - '0');
	}
	return true;
}

static bool parse_literal(const char **p, char c)
{
	return *(*p)++ == c;
}

/* Days of the civil calendar since 1970. */
static int64_t days_since_1970(int y, int m, int d)
{
	int64_t era, doe;
	int yoe, doy;

	y -= m <= 2;
	era = (y >= 0 ? y : y - 399) / 400;
	yoe = (int)(y - era * 400);
	doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	doe = (int64_t)yoe * 365 + yoe / 4 - yoe / 100 + doy;
	return era * 146097 + doe - 719468;
}

static bool seconds_of(int y, int mon, int d, int h, int min, int s, int64_t *out)
{
	static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

	if (y < 1 || mon < 1 || mon > 12 || d < 1 || d > lengths[mon - 1] + (mon == 2 && leap) || h > 23 || min > 59 ||
	    s > 60)
		return false;
	*out = days_since_1970(y, mon, d) * 86400 + h * 3600 + min * 60 + s;
	return true;
}

bool text_rfc1123_parse(const char *text, int64_t *out)
{
	int d, mon = 0, y, h, min, s;
	const char *p = text;
	size_t i = 0;

	while (i < 7 && strncmp(p, days[i], 3) != 0)
		i++;
	if (i == 7)
		return false;
	p += 3;
	if (!parse_literal(&p, ',') || !parse_literal(&p, ' ') || !parse_digits(&p, 2, &d) || !parse_literal(&p, ' '))
		return false;
	while (mon < 12 && strncmp(p, months[mon], 3) != 0)
		mon++;
	if (mon == 12)
		return false;
	p += 3;
	return parse_literal(&p, ' ') && parse_digits(&p, 4, &y) && parse_literal(&p, ' ') && parse_digits(&p, 2, &h) &&
	       parse_literal(&p, ':') && parse_digits(&p, 2, &min) && parse_literal(&p, ':') &&
	       parse_digits(&p, 2, &s) && strcmp(p, " GMT") == 0 && seconds_of(y, mon + 1, d, h, min, s, out);
}

void text_iso8601(int64_t us, char text[TEXT_ISO_SIZE])
{
	time_t t = (time_t)(us / 1000000);
	struct tm tm;
	size_t n;

	gmtime_r(&t, &tm);
	n = strftime(text, TEXT_ISO_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, TEXT_ISO_SIZE - n, ".%03dZ", (int)(us / 1000 % 1000));
}

bool text_iso8601_parse(const char *text, int64_t *out)
{
	int y, mon, d, h = 0, min = 0, s = 0;
	const char *p = text;

	if (!parse_digits(&p, 4, &y) || !parse_literal(&p, '-') || !parse_digits(&p, 2, &mon) ||
	    !parse_literal(&p, '-') || !parse_digits(&p, 2, &d))
		return false;
	if (*p == 'T') {
		p++;
		if (!parse_digits(&p, 2, &h) || !parse_literal(&p, ':') || !parse_digits(&p, 2, &min))
			return false;
		if (*p == ':') {
			p++;
			if (!parse_digits(&p, 2, &s))
				return false;
			if (*p == '.') {
				if (!isdigit((unsigned char)*++p))
					return false;
				while (isdigit((unsigned char)*p))
					p++;
			}
		}
	}
	return (*p == '\0' || (*p == 'Z' && p[1] == '\0')) && seconds_of(y, mon, d, h, min, s, out);
}

bool text_is_version(const char *text)
{
	int64_t s;

	return strlen(text) == 10 && text_iso8601_parse(text, &s) && strcmp(text, "2009-04-14") >= 0;
}

int64_t text_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}
