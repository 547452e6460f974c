// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>

#include "engine.h"
#include "kselftest.h"
#include "memory.h"
#include "offload.h"
#include "window.h"

#define LAST_TO_SET	GONE

struct window window;

static const struct model models[] = {
	{ "ptdma", "0x1498", ODMA0_AXI_SLVERR, true },
	{ "ae4dma", "0x149b", ODMA0_AXI_SLVERR, true },
	/* READ_DATA_ERR */
	{ "ioatdma", "0x0b00", 0x100, false },
	/* DSA_COMP_HW_ERR1 */
	{ "idxd", "0x0b25", 0x20, false },
};

const struct model *engine_model(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(models); i++)
		if (engine_is(models[i].module))
			return &models[i];
	return NULL;
}

bool window_map(void)
{
	glob_t paths;

	window.nr = 0;
	if (glob("/sys/bus/pci/devices/*", 0, NULL, &paths))
		return false;
	for (size_t i = 0; i < paths.gl_pathc && window.nr < MAX_DEVICES; i++) {
		struct device *device = &window.device[window.nr];
		const char *path = paths.gl_pathv[i];
		char value[16];
		void *map;
		int fd;

		if (setting_read(setting_path("%s/device", path), value, sizeof(value)) ||
		    strcmp(value, engine_model()->id))
			continue;
		fd = open(setting_path("%s/resource4", path), O_RDWR | O_SYNC);
		map = mmap(NULL, memory_page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (map == MAP_FAILED)
			continue;
		snprintf(device->name, sizeof(device->name), "%s", strrchr(path, '/') + 1);
		device->knobs = map;
		for (unsigned int knob = 0; knob < NR_KNOBS; knob++)
			device->initial[knob] = device->knobs[knob];
		window.nr++;
	}
	globfree(&paths);
	return window.nr;
}

void window_unmap(void)
{
	for (unsigned int i = 0; i < window.nr; i++)
		munmap((void *)window.device[i].knobs, memory_page_size());
	window.nr = 0;
}

void window_set(enum knob knob, uint32_t value)
{
	for (unsigned int i = 0; i < window.nr; i++)
		window.device[i].knobs[knob] = value;
}

uint64_t window_sum(enum knob knob)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < window.nr; i++)
		sum += window.device[i].knobs[knob];
	return sum;
}

void window_end_faults(void)
{
	for (unsigned int i = 0; i < window.nr; i++)
		for (unsigned int knob = 0; knob <= LAST_TO_SET; knob++)
			window.device[i].knobs[knob] = window.device[i].initial[knob];
	window_set(AFTERWARDS_US, 0);
	window_set(SKIP_EVERY, 0);
	window_set(FLIP_EVERY, 0);
	window_set(REORDER_EVERY, 0);
	window_set(LATE_RECORD_EVERY, 0);
	window_set(READS_TIME_OUT, 0);
}

bool window_wait_until_idle(void)
{
	return wait_until(!window_sum(BUSY), 10);
}
