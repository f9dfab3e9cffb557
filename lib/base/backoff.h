/* SPDX-License-Identifier: MIT */
/*
 * backoff - how an interval grows and shrinks: the arithmetic of struct deferred_backoff (deferred.h), shared
 * with the delays between attempts (retry.c).
 */
#ifndef BACKOFF_H
#define BACKOFF_H

#include "deferred.h"

/* The interval after `interval_ms`, at most the ceiling; for any value of the arguments, NaN included, a number
 * that fits an int64_t. */
double backoff_grow(double interval_ms, double exponent, int64_t ceiling_ms);

/* As a whole number, within [1, ceiling_ms]; where both conflict, 1. */
int64_t backoff_round_ms(double interval_ms, int64_t ceiling_ms);

#endif
