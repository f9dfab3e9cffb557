/* SPDX-License-Identifier: MIT */
/* random - for draws, never for secrets: the same everywhere for a given seed. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* Spread the bits of a number (the last step of splitmix64). */
static inline uint64_t random_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* The next number of a generator (splitmix64); *state is its seed at first. */
static inline uint64_t random_next(uint64_t *state)
{
	return random_mix(*state += 0x9e3779b97f4a7c15u);
}

#endif
