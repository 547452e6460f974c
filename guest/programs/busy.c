// SPDX-License-Identifier: GPL-2.0
/*
 * Prints for how many us processors were not idle since boot. /proc/uptime has the sum of their idle
 * times in hundredths of a second: this watches it until the next one, or for 10 ms if none is idle,
 * and leaves that time out.
 */
#include <fcntl.h>
#include <unistd.h>
#include "times.h"

/* The second number of /proc/uptime, in ns. */
static uint64_t idle_ns(int file)
{
	unsigned long seconds, hundredths;
	char text[64] = "";

	if (pread(file, text, sizeof(text) - 1, 0) < 0 ||
	    sscanf(text, "%*s %lu.%lu", &seconds, &hundredths) != 2)
		errx(1, "no idle time in /proc/uptime");
	return (seconds * 100 + hundredths) * 10000000;
}

int main(void)
{
	uint64_t began = clock_ns(CLOCK_BOOTTIME), before, idle, now;
	int file = open("/proc/uptime", O_RDONLY);

	before = idle_ns(file);
	do {
		idle = idle_ns(file);
		now = clock_ns(CLOCK_BOOTTIME);
	} while (idle == before && now < began + 10000000);
	printf("%ld\n", (long)(sysconf(_SC_NPROCESSORS_CONF) * now - idle - (now - began)) / 1000);
	return 0;
}
