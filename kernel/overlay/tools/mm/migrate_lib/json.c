// SPDX-License-Identifier: GPL-2.0
#include "json.h"

void json_string(FILE *out, const char *text)
{
	if (!text) {
		fputs("null", out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(out, "\\u%04x", *text);
		else
			fputc(*text, out);
	}
	fputc('"', out);
}

void json_member(FILE *out, const char *name, const char *text)
{
	json_string(out, name);
	fputs(": ", out);
	json_string(out, text);
}

const char *json_bool(bool value)
{
	return value ? "true" : "false";
}
