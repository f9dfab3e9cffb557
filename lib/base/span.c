/* SPDX-License-Identifier: MIT */
#include "base/span.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Largest first: in a span of several they come in this order, each at most once. */
static const struct unit {
	double ms;
	const char *names[6];
} units[] = {
	{ 604800e3, { "w", "week", "weeks" } },
	{ 86400e3, { "d", "day", "days" } },
	{ 3600e3, { "h", "hr", "hrs", "hour", "hours" } },
	{ 60e3, { "m", "min", "mins", "minute", "minutes" } },
	{ 1e3, { "s", "sec", "secs", "second", "seconds" } },
	{ 1, { "ms", "msec", "msecs", "millisecond", "milliseconds" } },
};
#define UNITS (sizeof(units) / sizeof(units[0]))
#define HOURS 2 /* a time of day stands in the place of these and what is smaller */

/* Digits are read one by one: the locale of the application does not matter. */
const char *span_decimal(const char *s, double *number)
{
	const char *start = s;
	double scale = 1;

	*number = 0;
	for (; isdigit((unsigned char)*s); s++)
		*number = *number * 10 + (*s - '0');
	if (s == start || s - start > 12)
		return NULL;
	if (*s == '.') {
		start = ++s;
		for (; isdigit((unsigned char)*s); s++)
			*number += (*s - '0') * (scale /= 10);
		if (s == start || s - start > 9)
			return NULL;
	}
	return s;
}

static size_t find_unit(const char *name, size_t len)
{
	for (size_t u = 0; u < UNITS; u++)
		for (const char *const *known = units[u].names; *known; known++)
			if (strlen(*known) == len && memcmp(*known, name, len) == 0)
				return u;
	return UNITS;
}

/* Two digits below 60, after a colon. */
static bool sixtieth(const char *s, double *number)
{
	if (s[0] != ':' || s[1] < '0' || s[1] > '5' || !isdigit((unsigned char)s[2]))
		return false;
	*number = (s[1] - '0') * 10 + (s[2] - '0');
	return true;
}

/* "HH:MM", "HH:MM:SS" or "HH:MM:SS.fraction" to its end. */
static bool parse_clock(const char *text, double *ms)
{
	const char *s = text + strspn(text, "0123456789");
	double hours, minutes, seconds = 0;

	if (span_decimal(text, &hours) != s || !sixtieth(s, &minutes))
		return false;
	s += 3;
	if (*s) {
		if (!sixtieth(s, &seconds) || (isdigit((unsigned char)s[3])))
			return false;
		s = span_decimal(s + 1, &seconds);
	}
	*ms = hours * 3600e3 + minutes * 60e3 + seconds * 1e3;
	return s && *s == '\0';
}

bool span_is_bare(const char *text)
{
	double number;
	const char *rest = span_decimal(text, &number);

	return rest && *rest == '\0';
}

bool span_lacks_unit(const char *text)
{
	return span_is_bare(text) && strspn(text, "0.") < strlen(text);
}

bool span_parse(const char *text, double *ms)
{
	double number;
	size_t next = 0;

	*ms = 0;
	if (span_is_bare(text)) {
		span_decimal(text, &number);
		*ms = number * 1e3;
		return true;
	}
	do {
		const char *rest = span_decimal(text, &number);
		size_t len, unit;

		if (!rest)
			return false;
		if (*rest == ':' && next <= HOURS && parse_clock(text, &number)) {
			*ms += number;
			return true;
		}
		rest += *rest == ' ';
		len = strspn(rest, "abcdefghijklmnopqrstuvwxyz");
		unit = find_unit(rest, len);
		if (unit == UNITS || unit < next)
			return false;
		*ms += number * units[unit].ms;
		next = unit + 1;
		text = rest + len;
		text += text[0] == ' ' && text[1] != '\0';
	} while (*text);
	return true;
}

static long long rounded(long long s, long long unit)
{
	return s / unit + (s % unit >= unit / 2);
}

const char *span_age(char buf[SPAN_AGE_SIZE], int64_t seconds)
{
	long long s = seconds < 0 ? -seconds : seconds;

	if (s < 120)
		snprintf(buf, SPAN_AGE_SIZE, "%llds", s);
	else if (rounded(s, 60) < 120)
		snprintf(buf, SPAN_AGE_SIZE, "%lldmin", rounded(s, 60));
	else if (rounded(s, 3600) < 48)
		snprintf(buf, SPAN_AGE_SIZE, "%lldh", rounded(s, 3600));
	else
		snprintf(buf, SPAN_AGE_SIZE, "%lldd", rounded(s, 86400));
	return buf;
}

bool span_is_calendar(const char *text)
{
	const char *number = text + strspn(text, "+-"), *unit = number + strspn(number, "0123456789.");
	bool any = unit > number;

	unit += strspn(unit, " ");
	return any && (*unit == 'y' || *unit == 'Y' || strncasecmp(unit, "mon", 3) == 0);
}
