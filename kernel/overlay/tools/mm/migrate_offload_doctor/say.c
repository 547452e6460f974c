// SPDX-License-Identifier: GPL-2.0
/* Progress, and hindrances. */
#include <stdarg.h>

#include "doctor.h"

void progress(const struct exam *exam, const char *format, ...)
{
	va_list arguments;

	if (exam->options->quiet)
		return;
	fprintf(stderr, "doctor: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
}

/* The first hindrance is the one that others may follow from. */
bool hinder(struct exam *exam, const char *format, ...)
{
	va_list arguments;

	if (exam->hindrance[0])
		return false;
	va_start(arguments, format);
	vsnprintf(exam->hindrance, sizeof(exam->hindrance), format, arguments);
	va_end(arguments);
	progress(exam, "%s", exam->hindrance);
	return false;
}
