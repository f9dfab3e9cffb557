/* SPDX-License-Identifier: MIT */
#include "base/receipt.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

/*
 * Two 64-bit halves: 48 bits, the version, 12 bits; then the variant in 2 bits and 62 bits. A reversible mapping
 * spreads the id over the first 64 free bits, so that successive ids do not look alike. The other bits are the check.
 */
#define SPREAD 0x6d65737361676531ull /* any number; another makes all GUIDs in the hands of clients invalid */
#define CHECK 0x9e3779b97f4a7c15ull
#define CHECK_MASK 0x03ffffffffffffffull

/* The inverse of z ^= z >> n. */
static uint64_t unshift(uint64_t z, int n)
{
	for (int i = n; i < 64; i *= 2)
		z ^= z >> i;
	return z;
}

/* The inverse of random_mix(): its multipliers' inverses modulo 2^64. */
static uint64_t unmix(uint64_t z)
{
	z = unshift(z, 31) * 0x319642b2d24d8ec3ull;
	z = unshift(z, 27) * 0x96de1b173f119089ull;
	return unshift(z, 30);
}

static void guid_halves(int64_t id, uint64_t half[2])
{
	uint64_t spread = random_mix((uint64_t)id ^ SPREAD), check = random_mix(spread ^ CHECK) & CHECK_MASK;

	half[0] = (spread >> 16 << 16) | 0x8000 | (spread >> 4 & 0xfff);
	half[1] = 0x8000000000000000ull | (spread & 0xf) << 58 | check;
}

void message_id_format(int64_t id, char text[MESSAGE_GUID_SIZE])
{
	uint64_t half[2];

	guid_halves(id, half);
	snprintf(text, MESSAGE_GUID_SIZE, "%08llx-%04llx-%04llx-%04llx-%012llx", (unsigned long long)(half[0] >> 32),
		 (unsigned long long)(half[0] >> 16 & 0xffff), (unsigned long long)(half[0] & 0xffff),
		 (unsigned long long)(half[1] >> 48), (unsigned long long)(half[1] & 0xffffffffffffull));
}

static int receipt_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool message_id_parse(const char *text, int64_t *id)
{
	uint64_t half[2] = { 0, 0 }, again[2], spread;
	int digits = 0;
	int64_t found;

	if (strlen(text) != MESSAGE_GUID_SIZE - 1)
		return false;
	for (size_t i = 0; i < MESSAGE_GUID_SIZE - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		int d = receipt_hex(text[i]);

		if (dash ? text[i] != '-' : d < 0)
			return false;
		if (!dash) {
			half[digits / 16] = half[digits / 16] << 4 | (uint64_t)d;
			digits++;
		}
	}
	spread = (half[0] >> 16 << 16) | (half[0] & 0xfff) << 4 | (half[1] >> 58 & 0xf);
	found = (int64_t)(unmix(spread) ^ SPREAD);
	guid_halves(found, again);
	if (found <= 0 || half[0] != again[0] || half[1] != again[1])
		return false;
	*id = found;
	return true;
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* 64 bits are ten letters of six bits and one of four. */
void receipt_format(int64_t receipt, char text[MESSAGE_RECEIPT_SIZE])
{
	uint64_t bits = (uint64_t)receipt;

	for (int i = 0; i < 10; i++)
		text[i] = letters[bits >> (58 - 6 * i) & 63];
	text[10] = letters[(bits & 15) << 2];
	text[11] = '\0';
}

bool receipt_parse(const char *text, int64_t *receipt)
{
	uint64_t bits = 0;

	if (strlen(text) != MESSAGE_RECEIPT_SIZE - 1)
		return false;
	for (size_t i = 0; i < MESSAGE_RECEIPT_SIZE - 1; i++) {
		const char *at = strchr(letters, text[i]);
		uint64_t six;

		if (!at)
			return false;
		six = (uint64_t)(at - letters);
		if (i < 10)
			bits = bits << 6 | six;
		else if ((six & 3) != 0)
			return false;
		else
			bits = bits << 4 | six >> 2;
	}
	*receipt = (int64_t)bits;
	return true;
}
