/*
 * Queues of descriptors that are copied as time passes: what the models of PTDMA and AE4DMA share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "hw/pci/msix.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include "qemu/main-loop.h"
#include "system/cpu-timers.h"
#include "amd_dma.h"

#define KNOB_BAR 4
#define NR_KNOBS (sizeof(AmdDmaKnobs) / sizeof(uint32_t))
#define MAX_PIECE (64 * KiB)

/* Bandwidth of the memory that all devices share, by the number of queues that copy. */
static struct {
    unsigned int busy;
    unsigned int nr;
    struct {
        uint32_t queues;
        uint32_t mbps;
    } at[AMD_DMA_MAX_QUEUES];
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

    for (memory.nr = 0; memory.nr < AMD_DMA_MAX_QUEUES; memory.nr++) {
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

static int64_t stretched(const AmdDma *dma, int64_t ns)
{
    return ns * dma->knobs.stretch / 100;
}

static int64_t piece_ns(const AmdDma *dma, uint32_t bytes)
{
    uint32_t share = memory_share();
    uint32_t mbps = dma->knobs.mbps;

    if (share && (!mbps || share < mbps)) {
        mbps = share;
    }
    return mbps ? stretched(dma, (int64_t)bytes * 1000 / mbps) : 0;
}

static uint32_t next_piece(const AmdDmaQueue *queue)
{
    uint32_t piece = MIN(MAX(queue->dma->knobs.piece, 1), MAX_PIECE);
    uint32_t half = queue->job.len / 2;

    /* A small descriptor hangs or fails in its middle as well. */
    if ((queue->hung || queue->error) && queue->done < half) {
        return MIN(piece, half - queue->done);
    }
    return MIN(piece, queue->job.len - queue->done);
}

/* Whether a fault strikes at the event that is counted by @seen. */
static bool strikes(AmdDma *dma, uint32_t every, unsigned int seen)
{
    if (!every || seen % every || !dma->knobs.limit) {
        return false;
    }
    dma->knobs.limit--;
    dma->knobs.strikes++;
    return true;
}

bool amd_dma_read(AmdDma *dma, uint64_t addr, void *buf, uint32_t len)
{
    return pci_dma_read(PCI_DEVICE(dma), addr, buf, len) == MEMTX_OK;
}

bool amd_dma_write(AmdDma *dma, uint64_t addr, const void *buf, uint32_t len)
{
    return pci_dma_write(PCI_DEVICE(dma), addr, buf, len) == MEMTX_OK;
}

static void begin(AmdDmaQueue *queue, int64_t now)
{
    AmdDma *dma = queue->dma;

    if (queue->busy || !queue->run || dma->knobs.gone ||
        !AMD_DMA_GET_CLASS(dma)->fetch(queue, &queue->job)) {
        return;
    }
    dma->descriptors_seen++;
    queue->error = strikes(dma, dma->knobs.error_every, dma->descriptors_seen) ?
                   dma->knobs.error_code : 0;
    queue->hung = strikes(dma, dma->knobs.hang_every, dma->descriptors_seen);
    queue->skipped = strikes(dma, dma->knobs.skip_every, dma->descriptors_seen);
    queue->flipped = strikes(dma, dma->knobs.flip_every, dma->descriptors_seen);
    queue->busy = true;
    queue->stopping = false;
    queue->again = false;
    queue->done = 0;
    dma->knobs.busy++;
    memory.busy++;
    queue->due = now + stretched(dma, dma->knobs.desc_ns) + piece_ns(dma, next_piece(queue));
}

static void end(AmdDmaQueue *queue)
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
    AmdDmaQueue *queue = opaque;
    uint8_t garbage[64];

    memset(garbage, 0xdb, sizeof(garbage));
    if (amd_dma_write(queue->dma, queue->job.dst, garbage, sizeof(garbage))) {
        queue->dma->knobs.stray += sizeof(garbage);
    } else {
        queue->dma->knobs.refused++;
    }
}

static void finish(AmdDmaQueue *queue, uint32_t error)
{
    AmdDmaKnobs *knobs = &queue->dma->knobs;

    end(queue);
    knobs->descriptors++;
    if (knobs->afterwards_us) {
        timer_mod(&queue->afterwards, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                      (int64_t)knobs->afterwards_us * SCALE_US);
    }
    AMD_DMA_GET_CLASS(queue->dma)->finish(queue, error);
}

static bool coasts(const AmdDmaQueue *queue)
{
    return queue->stopping &&
           queue->due < queue->stopped_at + (int64_t)queue->dma->knobs.coast_us * SCALE_US;
}

/* False if memory or an IOMMU refuses. */
static bool copy_piece(AmdDmaQueue *queue, uint32_t piece)
{
    uint8_t buf[MAX_PIECE];

    if (queue->skipped) {
        return true;
    }
    if (!amd_dma_read(queue->dma, queue->job.src + queue->done, buf, piece)) {
        return false;
    }
    if (queue->flipped && !queue->done) {
        buf[piece / 2] ^= 1;
    }
    return amd_dma_write(queue->dma, queue->job.dst + queue->done, buf, piece);
}

/* A piece of the descriptor in work, or its end. */
static void step(AmdDmaQueue *queue)
{
    AmdDma *dma = queue->dma;
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
        finish(queue, AMD_DMA_GET_CLASS(dma)->bus_error);
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

static bool stuck(const AmdDmaQueue *queue)
{
    return queue->hung && !queue->stopping && queue->done >= queue->job.len / 2;
}

static void work(void *opaque)
{
    AmdDmaQueue *queue = opaque;
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
    }
}

void amd_dma_kick(AmdDmaQueue *queue)
{
    if (!queue->busy) {
        begin(queue, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL));
        if (queue->busy) {
            timer_mod(&queue->work, queue->due);
        }
    }
}

void amd_dma_stop(AmdDmaQueue *queue)
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
    AmdDmaQueue *queue = opaque;

    if (!queue->dma->knobs.gone) {
        queue->dma->knobs.interrupts++;
        msix_notify(PCI_DEVICE(queue->dma), queue->index);
    }
}

void amd_dma_interrupt(AmdDmaQueue *queue)
{
    AmdDma *dma = queue->dma;

    dma->interrupts_seen++;
    if (strikes(dma, dma->knobs.lost_every, dma->interrupts_seen)) {
        return;
    }
    if (strikes(dma, dma->knobs.late_every, dma->interrupts_seen)) {
        timer_mod(&queue->late, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                (int64_t)dma->knobs.late_us * SCALE_US);
        return;
    }
    notify(queue);
}

void amd_dma_wait(AmdDma *dma, uint32_t us, bool (*done)(AmdDma *dma))
{
    int64_t end = g_get_monotonic_time() + us;

    /* In virtual time no processor moves while another waits. */
    if (icount_enabled()) {
        return;
    }
    while (g_get_monotonic_time() < end && !(done && done(dma))) {
        bql_unlock();
        g_usleep(MIN(us, 20));
        bql_lock();
    }
}

static uint64_t registers_read(void *opaque, hwaddr addr, unsigned int size)
{
    AmdDma *dma = opaque;
    unsigned int i;
    uint32_t value;

    if (dma->knobs.gone) {
        return UINT32_MAX;
    }
    /* A busy host may be late with timers: a driver that polls must not be the one that waits. */
    for (i = 0; i < AMD_DMA_GET_CLASS(dma)->nr_queues; i++) {
        if (dma->queue[i].busy) {
            work(&dma->queue[i]);
        }
    }
    /* As on a bus: what a register held is on its way for a while. */
    value = AMD_DMA_GET_CLASS(dma)->read(dma, addr);
    amd_dma_wait(dma, dma->knobs.read_us, NULL);
    return value;
}

static void registers_write(void *opaque, hwaddr addr, uint64_t value, unsigned int size)
{
    AmdDma *dma = opaque;

    if (!dma->knobs.gone) {
        AMD_DMA_GET_CLASS(dma)->write(dma, addr, value);
    }
}

static const MemoryRegionOps registers_ops = {
    .read = registers_read,
    .write = registers_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 4, .max_access_size = 4 },
};

static uint64_t knobs_read(void *opaque, hwaddr addr, unsigned int size)
{
    AmdDma *dma = opaque;

    return addr / 4 < NR_KNOBS ? ((uint32_t *)&dma->knobs)[addr / 4] : 0;
}

static void knobs_write(void *opaque, hwaddr addr, uint64_t value, unsigned int size)
{
    AmdDma *dma = opaque;

    if (addr / 4 < NR_KNOBS) {
        ((uint32_t *)&dma->knobs)[addr / 4] = value;
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
    return AMD_DMA(pci)->knobs.gone ? UINT32_MAX >> (32 - 8 * len) :
                                      pci_default_read_config(pci, addr, len);
}

static void config_write(PCIDevice *pci, uint32_t addr, uint32_t value, int len)
{
    if (!AMD_DMA(pci)->knobs.gone) {
        pci_default_write_config(pci, addr, value, len);
    }
}

static void amd_dma_reset(DeviceState *dev)
{
    AmdDma *dma = AMD_DMA(dev);
    unsigned int i;

    for (i = 0; i < AMD_DMA_GET_CLASS(dma)->nr_queues; i++) {
        dma->queue[i].run = false;
        end(&dma->queue[i]);
        timer_del(&dma->queue[i].late);
        timer_del(&dma->queue[i].afterwards);
    }
    AMD_DMA_GET_CLASS(dma)->reset(dma);
}

static void amd_dma_realize(PCIDevice *pci, Error **errp)
{
    AmdDma *dma = AMD_DMA(pci);
    AmdDmaClass *class = AMD_DMA_GET_CLASS(pci);
    unsigned int i;

    if (dma->bandwidth && !memory_parse(dma->bandwidth, errp)) {
        return;
    }
    if (msix_init_exclusive_bar(pci, class->nr_queues, class->msix_bar, errp)) {
        return;
    }
    for (i = 0; i < class->nr_queues; i++) {
        AmdDmaQueue *queue = &dma->queue[i];

        queue->dma = dma;
        queue->index = i;
        msix_vector_use(pci, i);
        timer_init_ns(&queue->work, QEMU_CLOCK_VIRTUAL, work, queue);
        timer_init_ns(&queue->late, QEMU_CLOCK_VIRTUAL, notify, queue);
        timer_init_ns(&queue->afterwards, QEMU_CLOCK_VIRTUAL, write_afterwards, queue);
    }
    memory_region_init_io(&dma->registers, OBJECT(dma), &registers_ops, dma, "registers",
                          class->registers_size);
    /* Reads give up the lock while other processors access the device. */
    dma->registers.disable_reentrancy_guard = true;
    pci_register_bar(pci, class->registers_bar, PCI_BASE_ADDRESS_SPACE_MEMORY, &dma->registers);
    memory_region_init_io(&dma->knob_window, OBJECT(dma), &knobs_ops, dma, "knobs", 4 * KiB);
    pci_register_bar(pci, KNOB_BAR, PCI_BASE_ADDRESS_SPACE_MEMORY, &dma->knob_window);
}

static void amd_dma_exit(PCIDevice *pci)
{
    AmdDma *dma = AMD_DMA(pci);
    unsigned int i;

    for (i = 0; i < AMD_DMA_GET_CLASS(dma)->nr_queues; i++) {
        end(&dma->queue[i]);
        timer_del(&dma->queue[i].late);
        timer_del(&dma->queue[i].afterwards);
    }
    msix_uninit_exclusive_bar(pci);
}

static void amd_dma_instance_init(Object *obj)
{
    AmdDma *dma = AMD_DMA(obj);

    dma->knobs = (AmdDmaKnobs) {
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
    AMD_DMA_KNOBS(KNOB_PROPERTY)
#undef KNOB_PROPERTY
}

static const Property amd_dma_properties[] = {
    DEFINE_PROP_STRING("bandwidth", AmdDma, bandwidth),
};

static const VMStateDescription amd_dma_vmstate = {
    .name = TYPE_AMD_DMA,
    .unmigratable = 1,
};

static void amd_dma_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    pc->realize = amd_dma_realize;
    pc->exit = amd_dma_exit;
    pc->config_read = config_read;
    pc->config_write = config_write;
    pc->vendor_id = PCI_VENDOR_ID_AMD;
    pc->class_id = PCI_CLASS_SYSTEM_OTHER;
    dc->vmsd = &amd_dma_vmstate;
    device_class_set_legacy_reset(dc, amd_dma_reset);
    device_class_set_props(dc, amd_dma_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

static const TypeInfo amd_dma_type = {
    .name = TYPE_AMD_DMA,
    .parent = TYPE_PCI_DEVICE,
    .abstract = true,
    .instance_size = sizeof(AmdDma),
    .instance_init = amd_dma_instance_init,
    .class_size = sizeof(AmdDmaClass),
    .class_init = amd_dma_class_init,
    .interfaces = (InterfaceInfo[]) {
        { INTERFACE_CONVENTIONAL_PCI_DEVICE },
        { },
    },
};

static void amd_dma_register_types(void)
{
    type_register_static(&amd_dma_type);
}
type_init(amd_dma_register_types)
