/*
 * Intel DSA 1.0, as its driver in Linux sees it (drivers/dma/idxd): a PCI function with eight work
 * queues, each of which a driver fills by writes of 64 bytes to its portal. Only dedicated queues
 * that the driver configures, without PASID, event log, batches and interrupt handles. "device.c"
 * and the other files that comments name are the driver's: they are all that is known here of a
 * register, a command or a descriptor; names and bits are those of registers.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "hw/core/cpu.h"
#include "hw/pci/msix.h"
#include "dma_engine.h"

#define TYPE_DSA "dsa"
OBJECT_DECLARE_SIMPLE_TYPE(Dsa, DSA)

#define NR_QUEUES 8
#define NR_ENGINES 4
#define NR_GROUPS 4
/* Entries of all queues. */
#define NR_ENTRIES 128

#define REG_VERSION 0x00
#define REG_GENCAP 0x10
#define REG_WQCAP 0x20
#define REG_GRPCAP 0x30
#define REG_ENGCAP 0x38
#define REG_OPCAP 0x40
#define REG_OFFSETS 0x60
#define REG_GENCFG 0x80
#define REG_GENCTRL 0x88
#define REG_GENSTATS 0x90
#define REG_INTCAUSE 0x98
#define REG_CMD 0xa0
#define REG_CMDSTS 0xa8
#define REG_SWERR 0xc0

/* Tables, where REG_OFFSETS says. */
#define GRPCFG 0x400
#define WQCFG 0x500
#define WQCFG_SIZE 32
#define MSIX_PERM 0x600
#define REGISTERS_END 0x700

#define GENCAP_CONFIGURABLE (1U << 31)
#define GENCAP_MAX_TRANSFER_SHIFT (31 << 16)
#define WQCAP_DEDICATED_HIGH (1 << (49 - 32))
#define OPCODE_NOOP 0
#define OPCODE_MEMMOVE 3

#define STATE_ENABLED 1

#define INTCAUSE_ERROR 0x1
#define INTCAUSE_COMMAND 0x2

#define CMDSTS_ACTIVE (1U << 31)
#define CMDSTS_INVALID 0x01
#define CMDSTS_DEVICE_ENABLED 0x10
#define CMDSTS_DEVICE_NOT_ENABLED 0x20
#define CMDSTS_WQ_ENABLED 0x21
#define CMDSTS_WQ_SIZE 0x22
#define CMDSTS_WQ_MODE 0x24

enum {
    ENABLE_DEVICE = 1, DISABLE_DEVICE, DRAIN_ALL, ABORT_ALL, RESET_DEVICE,
    ENABLE_WQ, DISABLE_WQ, DRAIN_WQ, ABORT_WQ, RESET_WQ,
};

/* Of enum dsa_completion_status in include/uapi/linux/idxd.h, as are flags and descriptor. */
#define SUCCESS 0x01
#define PAGE_FAULT 0x03
#define BAD_OPCODE 0x10
#define TRANSFER_RANGE 0x13
#define BAD_INTERRUPT_HANDLE 0x19

#define FLAG_RECORD_VALID 0x4
#define FLAG_RECORD 0x8
#define FLAG_INTERRUPT 0x10

#define DESCRIPTOR_BYTES 64
#define RECORD_BYTES 32

typedef struct QEMU_PACKED Descriptor {
    uint32_t pasid;
    uint32_t flags_opcode;
    uint64_t record;
    uint64_t src;
    uint64_t dst;
    uint32_t len;
    uint16_t handle;
    uint8_t rest[DESCRIPTOR_BYTES - 38];
} Descriptor;

typedef struct WorkQueue {
    /* What waits, the oldest first, and what is in work. */
    Descriptor entry[NR_ENTRIES];
    unsigned int nr;
    Descriptor current;
    /* A record that is late. */
    uint64_t record;
    uint8_t status;
    QEMUTimer late_record;
    Dsa *dsa;
} WorkQueue;

struct Dsa {
    DmaEngine parent_obj;

    MemoryRegion portals;
    uint32_t word[REGISTERS_END / 4];
    /* A command that has not ended, and its queues. */
    uint32_t command;
    uint32_t queues;
    WorkQueue wq[NR_QUEUES];
    /* What each processor has written of a descriptor. */
    uint8_t part[DMA_ENGINE_MAX_QUEUES][DESCRIPTOR_BYTES];
    /* Descriptors fetched while others waited. */
    unsigned int fetched;
    unsigned int records;
};

static uint32_t *word(Dsa *dsa, hwaddr addr)
{
    return &dsa->word[addr / 4];
}

/* By vector 0, to idxd_misc_thread() in irq.c. */
static void tell(Dsa *dsa, uint32_t cause)
{
    *word(dsa, REG_INTCAUSE) |= cause;
    if (!DMA_ENGINE(dsa)->knobs.gone) {
        msix_notify(PCI_DEVICE(dsa), 0);
    }
}

static void write_record(Dsa *dsa, uint64_t addr, uint8_t status)
{
    uint8_t record[RECORD_BYTES] = { status };

    dma_engine_write(DMA_ENGINE(dsa), addr, record, sizeof(record));
}

static void write_late_record(void *opaque)
{
    WorkQueue *wq = opaque;

    timer_del(&wq->late_record);
    if (wq->record) {
        write_record(wq->dsa, wq->record, wq->status);
    }
    wq->record = 0;
}

/* The record, then the interrupt: irq_process_pending_llist() in irq.c. */
static void complete(DmaEngineQueue *queue, uint8_t status)
{
    Dsa *dsa = DSA(queue->dma);
    WorkQueue *wq = &dsa->wq[queue->index];
    uint32_t flags = le32_to_cpu(wq->current.flags_opcode);
    uint32_t every = queue->dma->knobs.late_record_every;
    bool interrupt = flags & FLAG_INTERRUPT;

    /* A handle is the number of a vector: idxd_wq_request_irq() in device.c, without CMDCAP. */
    if (interrupt && le16_to_cpu(wq->current.handle) != queue->vector) {
        status = BAD_INTERRUPT_HANDLE;
        interrupt = false;
    }
    write_late_record(wq);
    if (flags & FLAG_RECORD_VALID && (flags & FLAG_RECORD || status != SUCCESS)) {
        wq->record = le64_to_cpu(wq->current.record);
        wq->status = status;
        if (every && !(++dsa->records % every)) {
            timer_mod(&wq->late_record, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                        (int64_t)queue->dma->knobs.late_us * SCALE_US);
        } else {
            write_late_record(wq);
        }
    }
    if (interrupt) {
        dma_engine_interrupt(queue);
    }
}

/* The maximum of the queue counts, not that of the device: idxd_wq_config_write() in device.c. */
static uint8_t verdict(Dsa *dsa, unsigned int index, const Descriptor *descriptor)
{
    uint32_t shift = extract32(*word(dsa, WQCFG + index * WQCFG_SIZE + 12), 0, 5);

    switch (le32_to_cpu(descriptor->flags_opcode) >> 24) {
    case OPCODE_NOOP:
        return SUCCESS;
    case OPCODE_MEMMOVE:
        return le32_to_cpu(descriptor->len) > 1U << shift ? TRANSFER_RANGE : SUCCESS;
    default:
        return BAD_OPCODE;
    }
}

/* The oldest; with reorder_every the newest, as DMA_COMPLETION_NO_ORDER in dma.c permits. */
static bool dsa_fetch(DmaEngineQueue *queue, DmaEngineJob *job)
{
    Dsa *dsa = DSA(queue->dma);
    WorkQueue *wq = &dsa->wq[queue->index];
    uint32_t every = queue->dma->knobs.reorder_every;
    const Descriptor *current = &wq->current;

    while (wq->nr) {
        bool newest = wq->nr > 1 && dma_engine_strikes(queue->dma, every, ++dsa->fetched);
        unsigned int i = newest ? wq->nr - 1 : 0;
        uint8_t status;

        wq->current = wq->entry[i];
        wq->nr--;
        memmove(&wq->entry[i], &wq->entry[i + 1], (wq->nr - i) * sizeof(wq->entry[0]));
        status = verdict(dsa, queue->index, current);
        if (status == SUCCESS) {
            bool copies = le32_to_cpu(current->flags_opcode) >> 24 == OPCODE_MEMMOVE;

            job->src = le64_to_cpu(current->src);
            job->dst = le64_to_cpu(current->dst);
            job->len = copies ? le32_to_cpu(current->len) : 0;
            return true;
        }
        complete(queue, status);
    }
    return false;
}

static void end_command(Dsa *dsa)
{
    uint32_t command = dsa->command;
    unsigned int i;

    if (!command) {
        return;
    }
    for (i = 0; i < NR_QUEUES; i++) {
        if (dsa->queues & 1 << i && (DMA_ENGINE(dsa)->queue[i].busy || dsa->wq[i].nr)) {
            return;
        }
    }
    switch (extract32(command, 20, 5)) {
    case RESET_DEVICE:
        memset(word(dsa, GRPCFG), 0, REGISTERS_END - GRPCFG);
        *word(dsa, REG_GENCFG) = *word(dsa, REG_GENCTRL) = 0;
        /* fall through */
    case DISABLE_DEVICE:
        *word(dsa, REG_GENSTATS) = 0;
        break;
    case RESET_WQ:
        /* In device.c idxd_wq_disable() writes the configuration once more. */
        for (i = 0; i < NR_QUEUES; i++) {
            if (dsa->queues & 1 << i) {
                memset(word(dsa, WQCFG + i * WQCFG_SIZE), 0, WQCFG_SIZE);
            }
        }
        break;
    }
    dsa->command = 0;
    *word(dsa, REG_CMDSTS) &= ~CMDSTS_ACTIVE;
    if (command & 1U << 31) {
        tell(dsa, INTCAUSE_COMMAND);
    }
}

static void dsa_finish(DmaEngineQueue *queue, uint32_t error)
{
    complete(queue, error ?: SUCCESS);
    end_command(DSA(queue->dma));
}

static void dsa_stopped(DmaEngineQueue *queue)
{
    end_command(DSA(queue->dma));
}

static uint32_t enable_wq(Dsa *dsa, unsigned int index)
{
    const uint32_t *config = word(dsa, WQCFG + (index % NR_QUEUES) * WQCFG_SIZE);
    DmaEngineQueue *queue = &DMA_ENGINE(dsa)->queue[index % NR_QUEUES];

    if (*word(dsa, REG_GENSTATS) != STATE_ENABLED) {
        return CMDSTS_DEVICE_NOT_ENABLED;
    }
    if (queue->run) {
        return CMDSTS_WQ_ENABLED;
    }
    if (!(config[0] & 0xffff) || (config[0] & 0xffff) > NR_ENTRIES) {
        return CMDSTS_WQ_SIZE;
    }
    if (!(config[2] & 1)) {
        return CMDSTS_WQ_MODE;
    }
    queue->run = true;
    return 0;
}

/* From idxd_cmd_exec() in device.c. Bits 15:0 of the operand are queues, or the number of one. */
static void execute(Dsa *dsa, uint32_t command)
{
    uint32_t *status = word(dsa, REG_CMDSTS);
    uint32_t operand = extract32(command, 0, 20);
    unsigned int code = extract32(command, 20, 5), i;

    *status = 0;
    dsa->command = command;
    dsa->queues = code <= RESET_DEVICE ? (1 << NR_QUEUES) - 1 : operand & ((1 << NR_QUEUES) - 1);
    switch (code) {
    case ENABLE_DEVICE:
        *status = *word(dsa, REG_GENSTATS) ? CMDSTS_DEVICE_ENABLED : 0;
        *word(dsa, REG_GENSTATS) = STATE_ENABLED;
        dsa->queues = 0;
        break;
    case ENABLE_WQ:
        *status = enable_wq(dsa, operand);
        dsa->queues = 0;
        break;
    case DRAIN_ALL:
    case DRAIN_WQ:
        break;
    case DISABLE_DEVICE:
    case DISABLE_WQ:
    case ABORT_ALL:
    case ABORT_WQ:
    case RESET_DEVICE:
    case RESET_WQ:
        /* What waits is forgotten; what is in work ends, unless it hangs. */
        for (i = 0; i < NR_QUEUES; i++) {
            if (dsa->queues & 1 << i) {
                dsa->wq[i].nr = 0;
                dma_engine_stop(&DMA_ENGINE(dsa)->queue[i]);
            }
        }
        break;
    default:
        *status = CMDSTS_INVALID;
        dsa->queues = 0;
    }
    *status |= CMDSTS_ACTIVE;
    end_command(dsa);
}

static uint32_t dsa_read(DmaEngine *dma, hwaddr addr)
{
    return addr < REGISTERS_END ? *word(DSA(dma), addr) : 0;
}

static void dsa_write(DmaEngine *dma, hwaddr addr, uint32_t value)
{
    Dsa *dsa = DSA(dma);

    switch (addr) {
    case REG_CMD:
        execute(dsa, value);
        break;
    case REG_INTCAUSE:
    case REG_SWERR:
        *word(dsa, addr) &= ~value;
        break;
    case REG_GENCFG:
    case REG_GENCTRL:
    case GRPCFG ... REGISTERS_END - 1:
        *word(dsa, addr) = value;
        break;
    }
}

/* A queue that is off or full takes none, and says so. */
static void submit(Dsa *dsa, unsigned int index, const void *descriptor)
{
    DmaEngineQueue *queue = &DMA_ENGINE(dsa)->queue[index];
    WorkQueue *wq = &dsa->wq[index];

    if (!queue->run || wq->nr == extract32(*word(dsa, WQCFG + index * WQCFG_SIZE), 0, 16)) {
        /* Valid, with the number of the queue. */
        *word(dsa, REG_SWERR) = 0x9 | index << 16;
        tell(dsa, INTCAUSE_ERROR);
        return;
    }
    memcpy(&wq->entry[wq->nr++], descriptor, DESCRIPTOR_BYTES);
    dma_engine_kick(queue);
}

static uint64_t portals_read(void *opaque, hwaddr addr, unsigned int size)
{
    return UINT64_MAX;
}

/* MOVDIR64B is eight stores; those of one processor are not mixed with others of it. */
static void portals_write(void *opaque, hwaddr addr, uint64_t value, unsigned int size)
{
    Dsa *dsa = opaque;
    uint8_t *part = dsa->part[current_cpu ? current_cpu->cpu_index % DMA_ENGINE_MAX_QUEUES : 0];

    stq_le_p(part + addr % DESCRIPTOR_BYTES, value);
    if (addr % DESCRIPTOR_BYTES == DESCRIPTOR_BYTES - 8 && !DMA_ENGINE(dsa)->knobs.gone) {
        /* Four pages a queue: idxd_get_wq_portal_full_offset() in idxd.h. */
        submit(dsa, addr / (16 * KiB), part);
    }
}

static const MemoryRegionOps portals_ops = {
    .read = portals_read,
    .write = portals_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 8, .max_access_size = 8 },
    .impl = { .min_access_size = 8, .max_access_size = 8 },
};

static void dsa_reset(DmaEngine *dma)
{
    Dsa *dsa = DSA(dma);
    unsigned int i;

    memset(dsa->word, 0, sizeof(dsa->word));
    *word(dsa, REG_VERSION) = 0x100;
    /* No event log, no batches, no CMDCAP. */
    *word(dsa, REG_GENCAP) = GENCAP_CONFIGURABLE | GENCAP_MAX_TRANSFER_SHIFT;
    *word(dsa, REG_WQCAP) = NR_ENTRIES | NR_QUEUES << 16;
    *word(dsa, REG_WQCAP + 4) = WQCAP_DEDICATED_HIGH;
    *word(dsa, REG_GRPCAP) = NR_GROUPS;
    *word(dsa, REG_ENGCAP) = NR_ENGINES;
    *word(dsa, REG_OPCAP) = 1 << OPCODE_NOOP | 1 << OPCODE_MEMMOVE;
    *word(dsa, REG_OFFSETS) = GRPCFG / 0x100 | WQCFG / 0x100 << 16;
    *word(dsa, REG_OFFSETS + 4) = MSIX_PERM / 0x100;
    dsa->command = 0;
    for (i = 0; i < NR_QUEUES; i++) {
        dsa->wq[i].nr = 0;
        dsa->wq[i].record = 0;
        timer_del(&dsa->wq[i].late_record);
    }
}

static void dsa_realize(DmaEngine *dma)
{
    Dsa *dsa = DSA(dma);
    unsigned int i;

    for (i = 0; i < NR_QUEUES; i++) {
        WorkQueue *wq = &dsa->wq[i];

        wq->dsa = dsa;
        timer_init_ns(&wq->late_record, QEMU_CLOCK_VIRTUAL, write_late_record, wq);
    }
    memory_region_init_io(&dsa->portals, OBJECT(dsa), &portals_ops, dsa, "portals",
                          NR_QUEUES * 16 * KiB);
    dsa->portals.disable_reentrancy_guard = true;
    pci_register_bar(PCI_DEVICE(dsa), 2, PCI_BASE_ADDRESS_SPACE_MEMORY, &dsa->portals);
}

DMA_ENGINE_MODEL(dsa, Dsa,
    .vendor_id = PCI_VENDOR_ID_INTEL, .device_id = 0x0b25, .nr_queues = NR_QUEUES,
    .first_vector = 1, .registers_bar = 0, .msix_bar = 1, .registers_size = 64 * KiB,
    .bus_error = PAGE_FAULT, .realize = dsa_realize, .stopped = dsa_stopped)
