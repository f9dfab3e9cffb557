/* SPDX-License-Identifier: MIT */
/*
 * gist - the one line of an error text that stands for it in a log.
 *
 * What interpreters print when a program fails says why at its end, below the calls that led there; so it is the last
 * line that begins at the margin and is none of the words around it, such as "Node.js v20.1.0".
 */
#ifndef GIST_H
#define GIST_H

const char *gist(const char *text, int *len); /* points into text; the first line where no line says more */

#endif
