/*
 * AMD PTDMA, as its driver in Linux sees it: a PCI function with one queue, a ring of descriptors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "amd_dma.h"

#define TYPE_PTDMA "ptdma"
OBJECT_DECLARE_SIMPLE_TYPE(Ptdma, PTDMA)

#define REG_CONTROL 0x1000
#define REG_TAIL 0x1004
#define REG_HEAD 0x1008
#define REG_INT_ENABLE 0x100c
#define REG_INT_STATUS 0x1010
#define REG_STATUS 0x1100
#define REG_QUEUE_INT_STATUS 0x1104

#define CONTROL_RUN 0x1
#define CONTROL_HALT 0x2
#define CONTROL_WRITABLE 0xffff00fdU

#define INT_COMPLETION 0x1
#define INT_ERROR 0x2

#define DESCRIPTOR_INTERRUPT 0x2

#define AXI_SLAVE_ERROR 19

struct Ptdma {
    AmdDma parent_obj;

    uint32_t control;
    uint32_t tail;
    uint32_t head;
    uint32_t int_enable;
    uint32_t int_status;
    uint32_t status;
    bool pending;
    /* Reads of the status that are held, and how often the queue was started. */
    unsigned int held;
    unsigned int starts;
    unsigned int starts_when_held;
};

static void update_interrupt(Ptdma *pt)
{
    bool pending = pt->int_status & pt->int_enable;

    if (pending && !pt->pending) {
        amd_dma_interrupt(&AMD_DMA(pt)->queue[0]);
    }
    pt->pending = pending;
}

static uint64_t ring_address(const Ptdma *pt)
{
    return (uint64_t)(pt->control >> 16) << 32 | pt->head;
}

static uint32_t behind(const Ptdma *pt, uint32_t descriptor)
{
    uint32_t ring_size = AMD_DMA_DESCRIPTOR << (extract32(pt->control, 3, 5) + 1);

    return (descriptor & ~(ring_size - 1)) |
           ((descriptor + AMD_DMA_DESCRIPTOR) & (ring_size - 1));
}

static bool ptdma_fetch(AmdDmaQueue *queue, AmdDmaJob *job)
{
    Ptdma *pt = PTDMA(queue->dma);
    uint32_t word[AMD_DMA_DESCRIPTOR / 4];

    if (pt->head == pt->tail) {
        return false;
    }
    if (!amd_dma_read(queue->dma, ring_address(pt), word, sizeof(word))) {
        return false;
    }
    job->interrupt = le32_to_cpu(word[0]) & DESCRIPTOR_INTERRUPT;
    job->len = le32_to_cpu(word[1]);
    job->src = le32_to_cpu(word[2]) | (uint64_t)extract32(le32_to_cpu(word[3]), 0, 16) << 32;
    job->dst = le32_to_cpu(word[4]) | (uint64_t)extract32(le32_to_cpu(word[5]), 0, 16) << 32;
    pt->status = 0;
    pt->starts++;
    return true;
}

/* The head stays at a descriptor that failed, and the queue stops there. */
static void ptdma_finish(AmdDmaQueue *queue, uint32_t error)
{
    Ptdma *pt = PTDMA(queue->dma);

    if (error) {
        queue->run = false;
        pt->status = error & 0x3f;
        pt->int_status |= INT_ERROR;
    } else {
        pt->head = behind(pt, pt->head);
        if (queue->job.interrupt) {
            pt->int_status |= INT_COMPLETION;
        }
    }
    update_interrupt(pt);
}

static bool next_started(AmdDma *dma)
{
    Ptdma *pt = PTDMA(dma);

    return pt->starts != pt->starts_when_held;
}

static uint32_t read_int_status(Ptdma *pt)
{
    AmdDma *dma = AMD_DMA(pt);
    uint32_t value = pt->int_status;

    if (value && dma->knobs.hold_us && !pt->held) {
        pt->held++;
        pt->starts_when_held = pt->starts;
        amd_dma_wait(dma, dma->knobs.hold_us, next_started);
        pt->held--;
    }
    return value;
}

static uint32_t ptdma_read(AmdDma *dma, hwaddr addr)
{
    Ptdma *pt = PTDMA(dma);

    switch (addr) {
    case REG_CONTROL:
        return (pt->control & ~CONTROL_RUN) | (dma->queue[0].run ? CONTROL_RUN : 0) |
               (amd_dma_halted(&dma->queue[0]) ? CONTROL_HALT : 0);
    case REG_TAIL:
        return pt->tail;
    case REG_HEAD:
        return pt->head;
    case REG_INT_ENABLE:
        return pt->int_enable;
    case REG_INT_STATUS:
        return read_int_status(pt);
    case REG_STATUS:
        return pt->status;
    case REG_QUEUE_INT_STATUS:
        return pt->int_status;
    default:
        return 0;
    }
}

static void ptdma_write(AmdDma *dma, hwaddr addr, uint32_t value)
{
    Ptdma *pt = PTDMA(dma);
    AmdDmaQueue *queue = &dma->queue[0];

    switch (addr) {
    case REG_CONTROL:
        pt->control = value & CONTROL_WRITABLE;
        if (value & CONTROL_RUN) {
            queue->run = true;
            amd_dma_kick(queue);
        } else {
            amd_dma_stop(queue);
        }
        break;
    case REG_TAIL:
        pt->tail = value;
        amd_dma_kick(queue);
        break;
    case REG_HEAD:
        pt->head = value;
        break;
    case REG_INT_ENABLE:
        pt->int_enable = value;
        update_interrupt(pt);
        break;
    case REG_INT_STATUS:
        pt->int_status &= ~value;
        update_interrupt(pt);
        break;
    }
}

static void ptdma_reset(AmdDma *dma)
{
    Ptdma *pt = PTDMA(dma);

    pt->control = pt->tail = pt->head = 0;
    pt->int_enable = pt->int_status = pt->status = 0;
    pt->pending = false;
}

static void ptdma_class_init(ObjectClass *klass, void *data)
{
    AmdDmaClass *class = AMD_DMA_CLASS(klass);

    class->parent_class.device_id = 0x1498;
    class->nr_queues = 1;
    class->registers_bar = 2;
    class->msix_bar = 0;
    class->registers_size = 64 * KiB;
    class->bus_error = AXI_SLAVE_ERROR;
    class->read = ptdma_read;
    class->write = ptdma_write;
    class->fetch = ptdma_fetch;
    class->finish = ptdma_finish;
    class->reset = ptdma_reset;
}

static const TypeInfo ptdma_type = {
    .name = TYPE_PTDMA,
    .parent = TYPE_AMD_DMA,
    .instance_size = sizeof(Ptdma),
    .class_init = ptdma_class_init,
};

static void ptdma_register_types(void)
{
    type_register_static(&ptdma_type);
}
type_init(ptdma_register_types)
