// SPDX-License-Identifier: GPL-2.0
/*
 * Requests to redis in open loop: they are due at a fixed rate, whatever became of earlier ones,
 * and the time of each begins when it is due. One of ten is a SET.
 *
 * Usage: open_loop <socket> <connections> <keys> <bytes of a value> <requests> <a second> <us>.
 * Prints times of requests, and how many took longer than <us>.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "times.h"

#define MAX_CONNECTIONS	64

static struct pollfd connections[MAX_CONNECTIONS];
static uint64_t due[MAX_CONNECTIONS];	/* of its request, 0: it has none */
static size_t rest[MAX_CONNECTIONS];	/* of the reply */
static char value[1 << 16];

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (socket_fd < 0 || connect(socket_fd, (struct sockaddr *)&address, sizeof(address)))
		err(1, "%s", path);
	return socket_fd;
}

static void request(int i, uint64_t keys, size_t bytes)
{
	static char line[sizeof(value) + 100];
	uint64_t key = random_below(keys);
	int length, set = !random_below(10);

	length = set ? sprintf(line, "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012lu\r\n$%lu\r\n%s\r\n", key,
			       bytes, value)
		     : sprintf(line, "*2\r\n$3\r\nGET\r\n$16\r\nkey:%012lu\r\n", key);
	if (write(connections[i].fd, line, length) != length)
		err(1, "a request");
	rest[i] = set ? strlen("+OK\r\n") : snprintf(NULL, 0, "$%lu\r\n\r\n", bytes) + bytes;
}

static void reply(int i)
{
	static char buffer[sizeof(value) + 100];
	ssize_t got = read(connections[i].fd, buffer, sizeof(buffer));

	if (got <= 0 || (size_t)got > rest[i] || buffer[0] == '-')
		errx(1, "not the reply that was expected");
	rest[i] -= got;
	if (!rest[i]) {
		count_time(due[i]);
		due[i] = 0;
	}
}

int main(int argc, char **argv)
{
	uint64_t all, sent = 0, start, every, now;
	int count, i, idle;

	if (argc != 8)
		errx(1, "seven arguments");
	prctl(PR_SET_TIMERSLACK, 1);
	count = atoi(argv[2]);
	all = atol(argv[5]);
	every = 1000000000 / atol(argv[6]);
	late = atol(argv[7]) * 1000;
	memset(value, 'v', atol(argv[4]));
	for (i = 0; i < count; i++)
		connections[i] = (struct pollfd){ connect_to(argv[1]), POLLIN, 0 };
	begin_times();
	start = clock_ns(CLOCK_MONOTONIC);
	while (times < all) {
		struct timespec wait = { 0, 0 };

		now = clock_ns(CLOCK_MONOTONIC);
		for (i = idle = 0; i < count; i++) {
			if (!due[i] && sent < all && start + sent * every <= now) {
				due[i] = start + sent++ * every;
				request(i, atol(argv[3]), atol(argv[4]));
			}
			idle += !due[i];
		}
		if (start + sent * every > now)
			wait.tv_nsec = start + sent * every - now;
		if (ppoll(connections, count, idle && sent < all ? &wait : NULL, NULL) < 0)
			err(1, "ppoll");
		for (i = 0; i < count; i++)
			if (connections[i].revents)
				reply(i);
	}
	end_times();
	print_times();
	return 0;
}
