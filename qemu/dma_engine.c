/*
 * Queues of descriptors that are copied as time passes: what the models of engines share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "hw/pci/msix.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include "system/cpu-timers.h"
#include "dma_engine.h"

#define KNOB_BAR 4
#define NR_KNOBS (sizeof(DmaEngineKnobs) / sizeof(uint32_t))
#define MAX_PIECE (64 * KiB)

/* Bandwidth of the memory that all devices share, by the number of queues that copy. */
static struct {
    unsigned int busy;
    unsigned int nr;
    struct {
        uint32_t queues;
        uint32_t mbps;
    } at[DMA_ENGINE_MAX_QUEUES];
} memory;

/* MB/s of each of the queues that copy now; 0 has no limit. Linear between what is given. */
static uint32_t memory_share(void)
{
    unsigned int i;
    uint32_t mbps;

    if (!memory.nr || !memory.busy) {
        return 0;
    }
    for (i = 0; i < memory.nr && memory.at[i].queues < memory.busy; i++) {
    }
    if (i == memory.nr) {
        mbps = memory.at[i - 1].mbps;
    } else if (!i) {
        mbps = memory.at[0].mbps;
    } else {
        int64_t queues = memory.at[i].queues - memory.at[i - 1].queues;
        int64_t more = (int64_t)memory.at[i].mbps - memory.at[i - 1].mbps;

        mbps = memory.at[i - 1].mbps + more * (memory.busy - memory.at[i - 1].queues) / queues;
    }
    return MAX(mbps / memory.busy, 1);
}

/* "1=13900/2=15800": queues and MB/s, more of them one after the other. */
static bool memory_parse(const char *text, Error **errp)
{
    const char *pos = text;

    for (memory.nr = 0; memory.nr < DMA_ENGINE_MAX_QUEUES; memory.nr++) {
        unsigned int queues, mbps;

        if (qemu_strtoui(pos, &pos, 10, &queues) || *pos++ != '=' ||
            qemu_strtoui(pos, &pos, 10, &mbps) || !mbps ||
            (memory.nr && queues <= memory.at[memory.nr - 1].queues)) {
            break;
        }
        memory.at[memory.nr].queues = queues;
        memory.at[memory.nr].mbps = mbps;
        if (!*pos) {
            memory.nr++;
            return true;
        }
        if (*pos++ != '/') {
            break;
        }
    }
    memory.nr = 0;
    error_setg(errp, "bandwidth=%s: not a list as 1=13900/2=15800", text);
    return false;
}

static int64_t stretched(const DmaEngine *dma, int64_t ns)
{
    return ns * dma->knobs.stretch / 100;
}

static int64_t piece_ns(const DmaEngine *dma, uint32_t bytes)
{
    uint32_t share = memory_share();
    uint32_t mbps = dma->knobs.mbps;

    if (share && (!mbps || share < mbps)) {
        mbps = share;
    }
    return mbps ? stretched(dma, (int64_t)bytes * 1000 / mbps) : 0;
}

static uint32_t next_piece(const DmaEngineQueue *queue)
{
    uint32_t piece = MIN(MAX(queue->dma->knobs.piece, 1), MAX_PIECE);
    uint32_t half = queue->job.len / 2;

    /* A small descriptor hangs or fails in its middle as well. */
    if ((queue->hung || queue->error) && queue->done < half) {
        return MIN(piece, half - queue->done);
    }
    return MIN(piece, queue->job.len - queue->done);
}

bool dma_engine_strikes(DmaEngine *dma, uint32_t every, unsigned int seen)
{
    if (!every || seen % every || !dma->knobs.limit) {
        return false;
    }
    dma->knobs.limit--;
    dma->knobs.strikes++;
    return true;
}

bool dma_engine_read(DmaEngine *dma, uint64_t addr, void *buf, uint32_t len)
{
    return pci_dma_read(PCI_DEVICE(dma), addr, buf, len) == MEMTX_OK;
}

bool dma_engine_write(DmaEngine *dma, uint64_t addr, const void *buf, uint32_t len)
{
    return pci_dma_write(PCI_DEVICE(dma), addr, buf, len) == MEMTX_OK;
}

static void begin(DmaEngineQueue *queue, int64_t now)
{
    DmaEngine *dma = queue->dma;

    if (queue->busy || !queue->run || dma->knobs.gone ||
        !dma->model->fetch(queue, &queue->job)) {
        return;
    }
    dma->descriptors_seen++;
    queue->error = dma_engine_strikes(dma, dma->knobs.error_every, dma->descriptors_seen) ?
                   dma->knobs.error_code : queue->job.error;
    queue->hung = dma_engine_strikes(dma, dma->knobs.hang_every, dma->descriptors_seen);
    queue->skipped = dma_engine_strikes(dma, dma->knobs.skip_every, dma->descriptors_seen);
    queue->flipped = dma_engine_strikes(dma, dma->knobs.flip_every, dma->descriptors_seen);
    queue->busy = true;
    queue->stopping = false;
    queue->again = false;
    queue->done = 0;
    dma->knobs.busy++;
    memory.busy++;
    queue->due = now + stretched(dma, dma->knobs.desc_ns) + piece_ns(dma, next_piece(queue));
}

static void end(DmaEngineQueue *queue)
{
    timer_del(&queue->work);
    if (queue->busy) {
        queue->busy = false;
        queue->dma->knobs.busy--;
        memory.busy--;
    }
}

static void write_afterwards(void *opaque)
{
    DmaEngineQueue *queue = opaque;
    uint8_t garbage[64];

    memset(garbage, 0xdb, sizeof(garbage));
    if (dma_engine_write(queue->dma, queue->job.dst, garbage, sizeof(garbage))) {
        queue->dma->knobs.stray += sizeof(garbage);
    } else {
        queue->dma->knobs.refused++;
    }
}

static void finish(DmaEngineQueue *queue, uint32_t error)
{
    DmaEngineKnobs *knobs = &queue->dma->knobs;

    end(queue);
    knobs->descriptors++;
    if (knobs->afterwards_us && queue->job.len) {
        timer_mod(&queue->afterwards, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                      (int64_t)knobs->afterwards_us * SCALE_US);
    }
    queue->dma->model->finish(queue, error);
}

static bool coasts(const DmaEngineQueue *queue)
{
    return queue->stopping &&
           queue->due < queue->stopped_at + (int64_t)queue->dma->knobs.coast_us * SCALE_US;
}

/* False if memory or an IOMMU refuses. */
static bool copy_piece(DmaEngineQueue *queue, uint32_t piece)
{
    uint8_t buf[MAX_PIECE];

    if (queue->skipped) {
        return true;
    }
    if (!dma_engine_read(queue->dma, queue->job.src + queue->done, buf, piece)) {
        return false;
    }
    if (queue->flipped && !queue->done) {
        buf[piece / 2] ^= 1;
    }
    return dma_engine_write(queue->dma, queue->job.dst + queue->done, buf, piece);
}

/* A piece of the descriptor in work, or its end. */
static void step(DmaEngineQueue *queue)
{
    DmaEngine *dma = queue->dma;
    uint32_t piece = next_piece(queue);

    if (queue->stopping && queue->hung) {
        if (!coasts(queue)) {
            end(queue);
        }
        queue->due += SCALE_MS;
        return;
    }
    /* Before the next piece: what hung half way writes nothing when it is let go. */
    if (queue->error && queue->done >= queue->job.len / 2) {
        finish(queue, queue->error);
        return;
    }
    if (!copy_piece(queue, piece)) {
        finish(queue, dma->model->bus_error);
        return;
    }
    queue->done += piece;
    if (queue->stopping) {
        dma->knobs.stray += piece;
    }
    if (queue->again && !coasts(queue)) {
        finish(queue, 0);
        return;
    }
    if (queue->done == queue->job.len) {
        if (!coasts(queue)) {
            finish(queue, 0);
            return;
        }
        queue->done = 0;
        queue->again = true;
    }
    /* Something must pass, or an engine that coasts at no cost would not let go. */
    queue->due += MAX(piece_ns(dma, next_piece(queue)), 1);
}

static bool stuck(const DmaEngineQueue *queue)
{
    return queue->hung && !queue->stopping && queue->done >= queue->job.len / 2;
}

static void work(void *opaque)
{
    DmaEngineQueue *queue = opaque;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);

    if (queue->dma->knobs.gone) {
        queue->run = false;
        end(queue);
        return;
    }
    /* It hangs as long as there is that fault, or until it is stopped. */
    if (stuck(queue) && !queue->dma->knobs.hang_every) {
        queue->hung = false;
        queue->due = now;
    }
    while (queue->busy && !stuck(queue) && queue->due <= now) {
        step(queue);
        if (!queue->busy) {
            begin(queue, queue->due);
        }
    }
    if (queue->busy) {
        timer_mod(&queue->work, stuck(queue) ? now + SCALE_MS : queue->due);
    } else if (queue->stopping && queue->dma->model->stopped) {
        queue->dma->model->stopped(queue);
    }
}

void dma_engine_kick(DmaEngineQueue *queue)
{
    if (!queue->busy) {
        begin(queue, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
        if (queue->busy) {
            timer_mod(&queue->work, queue->due);
        }
    }
}

void dma_engine_stop(DmaEngineQueue *queue)
{
    queue->run = false;
    if (queue->busy && !queue->stopping) {
        queue->stopping = true;
        queue->stopped_at = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
        queue->due = MAX(queue->due, queue->stopped_at);
        if (queue->done == queue->job.len) {
            queue->done = 0;
        }
        timer_mod(&queue->work, queue->due);
    }
}

static void notify(void *opaque)
{
    DmaEngineQueue *queue = opaque;

    if (!queue->dma->knobs.gone) {
        queue->dma->knobs.interrupts++;
        msix_notify(PCI_DEVICE(queue->dma), queue->vector);
    }
}

void dma_engine_interrupt(DmaEngineQueue *queue)
{
    DmaEngine *dma = queue->dma;

    dma->interrupts_seen++;
    if (dma_engine_strikes(dma, dma->knobs.lost_every, dma->interrupts_seen)) {
        return;
    }
    if (dma_engine_strikes(dma, dma->knobs.late_every, dma->interrupts_seen)) {
        timer_mod(&queue->late, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                (int64_t)dma->knobs.late_us * SCALE_US);
        return;
    }
    notify(queue);
}

/* The access of a processor takes a while: the others go on, and this one goes on later. */
static void keep_processor(const DmaEngine *dma)
{
    if (dma->knobs.access_us && current_cpu && icount_parallel()) {
        current_cpu->icount_charge += icount_round((int64_t)dma->knobs.access_us * SCALE_US);
        cpu_exit(current_cpu);
    }
}

static uint64_t registers_read(void *opaque, hwaddr addr, unsigned int size)
{
    DmaEngine *dma = opaque;
    unsigned int i;

    if (dma->knobs.gone) {
        return UINT32_MAX;
    }
    /* A busy host may be late with timers: a driver that polls must not be the one that waits. */
    for (i = 0; i < dma->model->nr_queues; i++) {
        if (dma->queue[i].busy) {
            work(&dma->queue[i]);
        }
    }
    keep_processor(dma);
    return dma->knobs.reads_time_out && dma->knobs.busy ? UINT32_MAX : dma->model->read(dma, addr);
}

static void registers_write(void *opaque, hwaddr addr, uint64_t value, unsigned int size)
{
    DmaEngine *dma = opaque;

    if (!dma->knobs.gone) {
        dma->model->write(dma, addr, value);
        keep_processor(dma);
    }
}

/* A longer access is several; a shorter one is for the register that begins at its address. */
static const MemoryRegionOps registers_ops = {
    .read = registers_read,
    .write = registers_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8 },
    .impl = { .min_access_size = 4, .max_access_size = 4 },
};

static uint64_t knobs_read(void *opaque, hwaddr addr, unsigned int size)
{
    DmaEngine *dma = opaque;

    return addr / 4 < NR_KNOBS ? ((uint32_t *)&dma->knobs)[addr / 4] : 0;
}

static void end_all(DmaEngine *dma)
{
    unsigned int i;

    for (i = 0; i < dma->model->nr_queues; i++) {
        dma->queue[i].run = false;
        end(&dma->queue[i]);
        timer_del(&dma->queue[i].late);
        timer_del(&dma->queue[i].afterwards);
    }
}

static void lose_power(void *opaque)
{
    DmaEngine *dma = opaque;

    end_all(dma);
    dma->model->reset(dma);
}

static void knobs_write(void *opaque, hwaddr addr, uint64_t value, unsigned int size)
{
    DmaEngine *dma = opaque;

    if (addr / 4 < NR_KNOBS) {
        ((uint32_t *)&dma->knobs)[addr / 4] = value;
    }
    if (addr == offsetof(DmaEngineKnobs, no_power_us)) {
        timer_mod(&dma->no_power, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + value * SCALE_US);
    }
}

static const MemoryRegionOps knobs_ops = {
    .read = knobs_read,
    .write = knobs_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 4, .max_access_size = 4 },
};

static uint32_t config_read(PCIDevice *pci, uint32_t addr, int len)
{
    return DMA_ENGINE(pci)->knobs.gone ? UINT32_MAX >> (32 - 8 * len) :
                                         pci_default_read_config(pci, addr, len);
}

static bool is_off(const PCIDevice *pci)
{
    return pci_get_word(pci->config + pci->pm_cap + PCI_PM_CTRL) & PCI_PM_CTRL_STATE_MASK;
}

static void config_write(PCIDevice *pci, uint32_t addr, uint32_t value, int len)
{
    DmaEngine *dma = DMA_ENGINE(pci);
    bool was_off = is_off(pci);

    if (dma->knobs.gone) {
        return;
    }
    pci_default_write_config(pci, addr, value, len);
    pcie_cap_flr_write_config(pci, addr, value, len);
    /* What is in work ends there in any case. */
    if (is_off(pci) && !was_off) {
        end_all(dma);
    } else if (was_off && !is_off(pci) && dma->knobs.reset_registers) {
        dma->model->reset(dma);
    }
}

static void dma_engine_reset(DeviceState *dev)
{
    lose_power(DMA_ENGINE(dev));
}

static void dma_engine_realize(PCIDevice *pci, Error **errp)
{
    DmaEngine *dma = DMA_ENGINE(pci);
    const DmaEngineModel *model = dma->model;
    unsigned int i;
    int pm;

    if (dma->bandwidth && !memory_parse(dma->bandwidth, errp)) {
        return;
    }
    if (msix_init_exclusive_bar(pci, model->first_vector + model->nr_queues, model->msix_bar,
                                errp)) {
        return;
    }
    pm = pci_pm_init(pci, 0, errp);
    if (pm < 0) {
        return;
    }
    if (pcie_endpoint_cap_init(pci, 0) < 0) {
        error_setg(errp, "no room for the capability of PCI Express");
        return;
    }
    pcie_cap_flr_init(pci);
    pci_set_word(pci->config + pm + PCI_PM_PMC, 3);
    pci_set_word(pci->wmask + pm + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK);
    for (i = 0; i < model->nr_queues; i++) {
        DmaEngineQueue *queue = &dma->queue[i];

        queue->dma = dma;
        queue->index = i;
        queue->vector = model->first_vector + i;
        timer_init_ns(&queue->work, QEMU_CLOCK_VIRTUAL, work, queue);
        timer_init_ns(&queue->late, QEMU_CLOCK_VIRTUAL, notify, queue);
        timer_init_ns(&queue->afterwards, QEMU_CLOCK_VIRTUAL, write_afterwards, queue);
    }
    for (i = 0; i < model->first_vector + model->nr_queues; i++) {
        msix_vector_use(pci, i);
    }
    memory_region_init_io(&dma->registers, OBJECT(dma), &registers_ops, dma, "registers",
                          model->registers_size);
    pci_register_bar(pci, model->registers_bar, PCI_BASE_ADDRESS_SPACE_MEMORY, &dma->registers);
    memory_region_init_io(&dma->knob_window, OBJECT(dma), &knobs_ops, dma, "knobs", 4 * KiB);
    pci_register_bar(pci, KNOB_BAR, PCI_BASE_ADDRESS_SPACE_MEMORY, &dma->knob_window);
    if (model->realize) {
        model->realize(dma);
    }
    timer_init_ns(&dma->no_power, QEMU_CLOCK_VIRTUAL, lose_power, dma);
}

static void dma_engine_exit(PCIDevice *pci)
{
    timer_del(&DMA_ENGINE(pci)->no_power);
    end_all(DMA_ENGINE(pci));
    msix_uninit_exclusive_bar(pci);
}

static void dma_engine_instance_init(Object *obj)
{
    DmaEngine *dma = DMA_ENGINE(obj);

    dma->model = DMA_ENGINE_GET_CLASS(obj)->model;
    dma->knobs = (DmaEngineKnobs) {
        .desc_ns = 420,
        .mbps = 13900,
        .stretch = 100,
        .piece = 4 * KiB,
        .limit = UINT32_MAX,
    };
#define KNOB_PROPERTY(name)                                                                        \
    do {                                                                                           \
        g_autofree char *text = g_strdelimit(g_strdup(#name), "_", '-');                           \
        object_property_add_uint32_ptr(obj, text, &dma->knobs.name, OBJ_PROP_FLAG_READWRITE);      \
    } while (0);
    DMA_ENGINE_KNOBS(KNOB_PROPERTY)
#undef KNOB_PROPERTY
}

static const Property dma_engine_properties[] = {
    DEFINE_PROP_STRING("bandwidth", DmaEngine, bandwidth),
};

static const VMStateDescription dma_engine_vmstate = {
    .name = TYPE_DMA_ENGINE,
    .unmigratable = 1,
};

static void dma_engine_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    pc->realize = dma_engine_realize;
    pc->exit = dma_engine_exit;
    pc->config_read = config_read;
    pc->config_write = config_write;
    pc->class_id = PCI_CLASS_SYSTEM_OTHER;
    dc->vmsd = &dma_engine_vmstate;
    device_class_set_legacy_reset(dc, dma_engine_reset);
    device_class_set_props(dc, dma_engine_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

void dma_engine_model_class_init(ObjectClass *klass, void *data)
{
    const DmaEngineModel *model = data;

    DMA_ENGINE_CLASS(klass)->model = model;
    PCI_DEVICE_CLASS(klass)->vendor_id = model->vendor_id;
    PCI_DEVICE_CLASS(klass)->device_id = model->device_id;
}

static const TypeInfo dma_engine_types[] = {
    {
        .name = TYPE_DMA_ENGINE,
        .parent = TYPE_PCI_DEVICE,
        .abstract = true,
        .instance_size = sizeof(DmaEngine),
        .instance_init = dma_engine_instance_init,
        .class_size = sizeof(DmaEngineClass),
        .class_init = dma_engine_class_init,
        .interfaces = (InterfaceInfo[]) {
            { INTERFACE_PCIE_DEVICE },
            { },
        },
    },
};
DEFINE_TYPES(dma_engine_types)
