/* SPDX-License-Identifier: GPL-2.0 */
/* Words of JSON. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdio.h>

/* A string in quotes, or null if @text is NULL. */
void json_string(FILE *out, const char *text);
/* "name": "text" */
void json_member(FILE *out, const char *name, const char *text);
/* "true" or "false" */
const char *json_bool(bool value);

#endif /* JSON_H */
