/* SPDX-License-Identifier: MIT */
/*
 * deferred_backtrace - names the frames of a function that crashed: file, symbol, and the line where there is debug
 * information.
 *
 * The process that crashed starts it in the handler of the signal (bin/deferred_runner/crash.c). It has the rights of
 * that process, but limits of its own and no environment. Only its input is open, and nothing of that process is in its
 * memory. Standard input and the files may hold anything, so all input is bounded, checked and cleaned. A file that
 * makes this program crash only costs the names.
 *
 *     main.c     frames come in, lines go out
 *     symbol.c   the function an address is in
 *     source.c   the line it was made from; the only file to include elfutils
 */
#ifndef BACKTRACE_H
#define BACKTRACE_H

#include <stddef.h>
#include <stdint.h>

#define SYMBOL_SIZE 129
#define SOURCE_SIZE 81

/* Name of the function at an address of the object in these bytes, cut where it is too long, and where in it that is.
 * Returns 0, -1: no name is known. */
int symbol_find(const unsigned char *image, size_t size, uint64_t address, char name[SYMBOL_SIZE], uint64_t *offset);

/* File without folder, and line. fd stays open. Returns 0, -1: not known. */
int source_find(int fd, uint64_t address, char file[SOURCE_SIZE], int *line);

#endif
