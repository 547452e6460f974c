// SPDX-License-Identifier: GPL-2.0
/*
 * Which DMA engines there are, and what their drivers state. sysfs knows the channels;
 * which of them copy memory, and what their drivers state, dcbm tells of the channels
 * that it holds: it gets those of one driver after the other.
 */
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

#define DMA_DIR		"/sys/class/dma"
#define DCBM_CHANNELS	"/sys/kernel/debug/dcbm/channels"

static struct engine *engine_of(struct exam *exam, const char *driver)
{
	struct engine *engine;

	for (unsigned int i = 0; i < exam->nr_engines; i++)
		if (!strcmp(exam->engine[i].driver, driver))
			return &exam->engine[i];
	if (exam->nr_engines == MAX_ENGINES)
		return NULL;
	engine = &exam->engine[exam->nr_engines++];
	snprintf(engine->driver, sizeof(engine->driver), "%s", driver);
	return engine;
}

static void add_channel(struct exam *exam, const char *channel)
{
	char link[PATH_MAX], iommu[sizeof(((struct engine *)0)->iommu)] = "none";
	struct engine *engine;
	const char *driver;
	ssize_t len;

	len = readlink(setting_path(DMA_DIR "/%s/device/driver", channel), link, sizeof(link) - 1);
	if (len < 0)
		return;
	link[len] = '\0';
	driver = basename(link);
	if (exam->options->engine && strcmp(driver, exam->options->engine))
		return;
	engine = engine_of(exam, driver);
	if (!engine || engine->nr_channels == MAX_CHANNELS)
		return;
	snprintf(engine->channel[engine->nr_channels++], sizeof(engine->channel[0]), "%s", channel);

	/* "DMA" is strict, "DMA-FQ" lazy, and "identity" passes through. */
	setting_read(setting_path(DMA_DIR "/%s/device/iommu_group/type", channel), iommu,
		     sizeof(iommu));
	strcpy(engine->iommu, *engine->iommu && strcmp(engine->iommu, iommu) ? "mixed" : iommu);
	engine->in_use += setting_read_number(setting_path(DMA_DIR "/%s/in_use", channel)) > 0;
}

int set_way(const struct way *way)
{
	const struct engine *engine = way->engine;

	return offload_set_enabled(false) ?:
	       (engine ? setting_write(DCBM_DIR "/providers", engine->driver) : 0) ?:
	       offload_set_route(REASON, way->migrator) ?:
	       offload_set_route(DEMOTION, way->migrator) ?:
	       (strcmp(way->migrator, "none") ? offload_set_enabled(true) : 0);
}

/* Asks dcbm about the channels that it holds. */
static void read_channels(struct exam *exam, struct engine *engine)
{
	FILE *file = fopen(DCBM_CHANNELS, "re");
	char line[512], driver[32], stops[32];

	engine->described = file && fgets(line, sizeof(line), file) && strstr(line, "stops");
	if (!engine->described)
		hinder(exam, "%s does not tell what engines can do: is debugfs mounted?",
		       DCBM_CHANNELS);
	while (engine->described && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*s %31s %*s %*s %*s %*s %*s %*s %31s", driver,
			   stops) != 2 || strcmp(driver, engine->driver))
			continue;
		engine->for_memory++;
		engine->stops = !strcmp(stops, "yes");
	}
	if (file)
		fclose(file);
}

/* dcbm takes channels, and gives them back, while a route is written. */
static void ask_dcbm(struct exam *exam, struct engine *engine)
{
	int error = setting_write(DCBM_DIR "/providers", engine->driver) ?:
		    offload_set_route(REASON, "dcbm");

	if (error)
		hinder(exam, "dcbm cannot be asked about engines: %s", strerror(-error));
	else
		read_channels(exam, engine);
	offload_set_route(REASON, "none");
}

/*
 * No other memory is copied by a migrator until the doctor is done. The doctor's may be
 * copied by the CPU, but not because the kernel has found the migrator slow.
 */
static bool remove_routes(struct exam *exam)
{
	int error = offload_set_enabled(false) ?: offload_route_only(NULL, "none") ?:
		    setting_write(OFFLOAD_DEBUG "/learns", "0");

	return !error || hinder(exam, "routes cannot be set: %s", strerror(-error));
}

void find_engines(struct exam *exam)
{
	glob_t paths;

	progress(exam, "find engines");
	if (!remove_routes(exam))
		return;
	if (!glob(DMA_DIR "/dma*chan*", 0, NULL, &paths)) {
		for (size_t i = 0; i < paths.gl_pathc; i++)
			add_channel(exam, basename(paths.gl_pathv[i]));
		globfree(&paths);
	}
	if (!exam->nr_engines && exam->options->engine)
		hinder(exam, "there is no engine with the driver %s", exam->options->engine);
	if (!exam->nr_engines)
		return;
	if (module_load("dcbm", "")) {
		hinder(exam, "the module dcbm cannot be loaded: see dmesg");
		return;
	}
	progress(exam, "ask dcbm about drivers");
	for (unsigned int i = 0; i < exam->nr_engines; i++)
		ask_dcbm(exam, &exam->engine[i]);
}
