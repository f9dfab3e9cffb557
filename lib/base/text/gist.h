/* SPDX-License-Identifier: MIT */
/*
 * gist - the one line of an error text that stands for it in a log.
 *
 * Interpreters print the reason of a failure at the end, below the calls that led there. The gist is therefore the last
 * line without indentation, except for closing lines such as "Node.js v20.1.0".
 */
#ifndef GIST_H
#define GIST_H

const char *gist(const char *text, int *len); /* points into text; the first line where no line says more */

#endif
