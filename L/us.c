#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <pthread.h>
#include <fcntl.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <linux/userfaultfd.h>
#ifndef UFFDIO_MOVE
#error no UFFDIO_MOVE
#endif
#define N 256
#define P 4096UL
static char *a, *b;
static int uffd;
static volatile int stop;
static long moved, busy, again, other, outs;
static volatile char in_b[N];
static void *pageout(void *x) { while (!stop) { madvise(a, N*P, 21); madvise(b, N*P, 21); outs++; sched_yield(); } return 0; }
static void *touch(void *x) {
	/* swaps in pages, perhaps while they are moved; never faults on missing: mincore-free read by process_vm_readv-like */
	unsigned int s = 7; volatile char c; struct { void *p; size_t l; } ;
	int fd = open("/proc/self/mem", O_RDONLY);
	char buf[64];
	while (!stop) { unsigned i = rand_r(&s) % N; char *m = in_b[i] ? b : a; madvise(m + i*P, P, 22 /* POPULATE_READ */); (void)buf; }
	close(fd); return 0; }
int main(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_MOVE | UFFD_FEATURE_SIGBUS };
	pthread_t t[4];
	long bad = 0;
	unsigned int seed = 1;
	time_t end;
	setvbuf(stdout, 0, _IOLBF, 0);
	printf("TAP version 13\n1..1\n");
	a = mmap(0, N*P, 3, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
	b = mmap(0, N*P, 3, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
	madvise(a, N*P, MADV_NOHUGEPAGE); madvise(b, N*P, MADV_NOHUGEPAGE);
	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api)) { printf("not ok 1 api %d\n", errno); return 1; }
	for (int i = 0; i < N; i++) memset(a + i*P, i + 1, P);
	for (int k = 0; k < 2; k++) {
		struct uffdio_register r = { .range = { (unsigned long)(k ? b : a), N*P }, .mode = UFFDIO_REGISTER_MODE_MISSING };
		if (ioctl(uffd, UFFDIO_REGISTER, &r)) { printf("not ok 1 register %d\n", errno); return 1; }
	}
	pthread_create(&t[0], 0, pageout, 0);
	pthread_create(&t[1], 0, touch, 0);
	end = time(0) + 20;
	while (time(0) < end) {
		unsigned i = rand_r(&seed) % N;
		char *from = in_b[i] ? b : a, *to = in_b[i] ? a : b;
		struct uffdio_move m = { .dst = (unsigned long)to + i*P, .src = (unsigned long)from + i*P, .len = P };
		if (!ioctl(uffd, UFFDIO_MOVE, &m)) {
			in_b[i] = !in_b[i]; moved++;
			if (to[0 + i*P] != (char)(i + 1) || to[P - 1 + i*P] != (char)(i + 1)) bad++;
		} else if (errno == EBUSY) busy++;
		else if (errno == EAGAIN) again++;
		else { if (other++ < 5) printf("# errno %d page %u\n", errno, i); }
	}
	stop = 1;
	close(uffd);	/* wakes the touch thread */
	for (int i = 0; i < N; i++) { char *m = in_b[i] ? b : a; for (unsigned k = 0; k < P; k += 64) if (m[i*P+k] != (char)(i+1)) { bad++; break; } }
	printf("# moved %ld busy %ld again %ld other %ld outs %ld bad %ld\n", moved, busy, again, other, outs, bad);
	char line[200]; FILE *f = fopen("/proc/vmstat", "r"); while (fgets(line, 200, f)) if (!strncmp(line, "pswp", 4)) printf("# %s", line);
	printf("%s 1 moves\n", bad || !moved ? "not ok" : "ok");
	return bad || !moved;
}
