/* SPDX-License-Identifier: GPL-2.0 */
/*
 * QEMU's models of engines: a window in their BAR 4 sets how fast they are, and
 * what goes wrong, while they work.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_DEVICES	16

/* The words of the window, in the order of DMA_ENGINE_KNOBS in qemu/dma_engine.h. */
enum knob {
	DESC_NS, MBPS, STRETCH, PIECE, ACCESS_US, ERROR_EVERY, ERROR_CODE, HANG_EVERY,
	LOST_EVERY, LATE_EVERY, LATE_US, LIMIT, COAST_US, GONE, DESCRIPTORS, INTERRUPTS, STRIKES,
	STRAY, BUSY, AFTERWARDS_US, REFUSED, SKIP_EVERY, FLIP_EVERY, REORDER_EVERY,
	LATE_RECORD_EVERY, RUN_DROPS_WHEN_EMPTY, HEAD_ON_FETCH,
	HEAD_PAST_ERROR, EARLY_HALT, RESET_REGISTERS, READS_TIME_OUT, SILENT_SUCCESS,
	NO_POWER_US, NR_KNOBS
};

/* An error code of PTDMA and AE4DMA. */
#define ODMA0_AXI_SLVERR	38

struct device {
	/* As in /sys/bus/pci/devices. */
	char name[16];
	volatile uint32_t *knobs;
	uint32_t initial[NR_KNOBS];
};

/* The devices of the engine that the machine has, and QEMU models. */
extern struct window {
	struct device device[MAX_DEVICES];
	unsigned int nr;
} window;

/* An engine that has a model, and what tests must know of it. */
struct model {
	const char *module;
	/* Of the PCI device. */
	const char *id;
	/* An error code that its driver expects. */
	uint32_t error;
	/* Its driver can terminate: a copy that does not end in time is not lost. */
	bool terminates;
};

/* Of the engine; NULL if it has none. */
const struct model *engine_model(void);
bool window_map(void);
void window_unmap(void);
void window_set(enum knob knob, uint32_t value);
uint64_t window_sum(enum knob knob);
void window_end_faults(void);
/* False if queues are still busy after 10 s. */
bool window_wait_until_idle(void);

#endif /* WINDOW_H */
