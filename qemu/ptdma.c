/*
 * AMD PTDMA, as its driver in Linux sees it: a PCI function with one queue, a ring of descriptors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "dma_engine.h"

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
    DmaEngine parent_obj;

    uint32_t control;
    uint32_t tail;
    uint32_t head;
    uint32_t int_enable;
    uint32_t int_status;
    uint32_t status;
    bool pending;
    /* The head has passed the descriptor in work. */
    bool passed;
    /* A descriptor has failed: RUN starts nothing until the head is written (kernel/held). */
    bool failed;
};

static void update_interrupt(Ptdma *pt)
{
    bool pending = pt->int_status & pt->int_enable;

    if (pending && !pt->pending) {
        dma_engine_interrupt(&DMA_ENGINE(pt)->queue[0]);
    }
    pt->pending = pending;
}

static uint64_t ring_address(const Ptdma *pt)
{
    return (uint64_t)(pt->control >> 16) << 32 | pt->head;
}

static uint32_t behind(const Ptdma *pt, uint32_t descriptor)
{
    uint32_t ring_size = DMA_ENGINE_DESCRIPTOR << (extract32(pt->control, 3, 5) + 1);

    return (descriptor & ~(ring_size - 1)) |
           ((descriptor + DMA_ENGINE_DESCRIPTOR) & (ring_size - 1));
}

static void drop_run(Ptdma *pt)
{
    DmaEngine *dma = DMA_ENGINE(pt);

    if (dma->knobs.run_drops_when_empty && !dma->queue[0].busy && pt->head == pt->tail) {
        dma->queue[0].run = false;
    }
}

static bool ptdma_fetch(DmaEngineQueue *queue, DmaEngineJob *job)
{
    Ptdma *pt = PTDMA(queue->dma);
    uint32_t word[DMA_ENGINE_DESCRIPTOR / 4];

    if (pt->head == pt->tail) {
        return false;
    }
    if (!dma_engine_read(queue->dma, ring_address(pt), word, sizeof(word))) {
        return false;
    }
    job->interrupt = le32_to_cpu(word[0]) & DESCRIPTOR_INTERRUPT;
    job->len = le32_to_cpu(word[1]);
    job->src = le32_to_cpu(word[2]) | (uint64_t)extract32(le32_to_cpu(word[3]), 0, 16) << 32;
    job->dst = le32_to_cpu(word[4]) | (uint64_t)extract32(le32_to_cpu(word[5]), 0, 16) << 32;
    pt->status = 0;
    pt->passed = queue->dma->knobs.head_on_fetch;
    if (pt->passed) {
        pt->head = behind(pt, pt->head);
    }
    return true;
}

/* The queue stops at a descriptor that failed. */
static void ptdma_finish(DmaEngineQueue *queue, uint32_t error)
{
    Ptdma *pt = PTDMA(queue->dma);

    if (error) {
        queue->run = false;
        pt->failed = true;
        if (!pt->passed && queue->dma->knobs.head_past_error) {
            pt->head = behind(pt, pt->head);
        }
        pt->status = error & 0x3f;
        pt->int_status |= INT_ERROR;
    } else {
        if (!pt->passed) {
            pt->head = behind(pt, pt->head);
        }
        if (queue->job.interrupt) {
            pt->int_status |= INT_COMPLETION;
        }
        drop_run(pt);
    }
    update_interrupt(pt);
}

static bool is_halted(const DmaEngine *dma)
{
    return dma->knobs.early_halt ? !dma->queue[0].run : dma_engine_halted(&dma->queue[0]);
}

static uint32_t ptdma_read(DmaEngine *dma, hwaddr addr)
{
    Ptdma *pt = PTDMA(dma);

    switch (addr) {
    case REG_CONTROL:
        return (pt->control & ~CONTROL_RUN) | (dma->queue[0].run ? CONTROL_RUN : 0) |
               (is_halted(dma) ? CONTROL_HALT : 0);
    case REG_TAIL:
        return pt->tail;
    case REG_HEAD:
        return pt->head;
    case REG_INT_ENABLE:
        return pt->int_enable;
    case REG_INT_STATUS:
        return pt->int_status;
    case REG_STATUS:
        return pt->status;
    case REG_QUEUE_INT_STATUS:
        return pt->int_status;
    default:
        return 0;
    }
}

static void ptdma_write(DmaEngine *dma, hwaddr addr, uint32_t value)
{
    Ptdma *pt = PTDMA(dma);
    DmaEngineQueue *queue = &dma->queue[0];

    switch (addr) {
    case REG_CONTROL:
        pt->control = value & CONTROL_WRITABLE;
        if (value & CONTROL_RUN) {
            queue->run = !pt->failed;
            dma_engine_kick(queue);
            drop_run(pt);
        } else {
            dma_engine_stop(queue);
        }
        break;
    case REG_TAIL:
        pt->tail = value;
        dma_engine_kick(queue);
        break;
    case REG_HEAD:
        pt->head = value;
        pt->failed = false;
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

static void ptdma_reset(DmaEngine *dma)
{
    Ptdma *pt = PTDMA(dma);

    pt->control = pt->tail = pt->head = 0;
    pt->int_enable = pt->int_status = pt->status = 0;
    pt->pending = pt->failed = false;
}

DMA_ENGINE_MODEL(ptdma, Ptdma,
    .vendor_id = PCI_VENDOR_ID_AMD, .device_id = 0x1498, .nr_queues = 1, .registers_bar = 2,
    .msix_bar = 0, .registers_size = 64 * KiB, .bus_error = AXI_SLAVE_ERROR)
