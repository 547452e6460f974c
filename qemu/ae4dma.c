/*
 * AMD AE4DMA, as its driver in Linux sees it: a PCI function with up to 16 queues, each a ring of
 * descriptors with an interrupt of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "dma_engine.h"

#define TYPE_AE4DMA "ae4dma"
OBJECT_DECLARE_SIMPLE_TYPE(Ae4dma, AE4DMA)

#define REG_QUEUES 0x00

/* Of each queue; queue 0 is at QUEUE_SIZE. */
#define QUEUE_SIZE 0x20
#define REG_CONTROL 0x00
#define REG_READ_INDEX 0x0c
#define REG_WRITE_INDEX 0x10

#define CONTROL_RUN 0x1
#define INT_PENDING 0x1

#define DESCRIPTOR_INTERRUPT 0x2
#define DESCRIPTOR_RESULT 4
#define STATUS_COMPLETED 3
#define STATUS_ERROR 4

/* Errors as ae4_error_codes[] of the driver has them. */
#define UNALIGNED_LENGTH 3
#define UNALIGNED_SRC 4
#define UNALIGNED_DST 5
#define PTE_ERROR 64

typedef struct Ae4dmaRing {
    uint32_t control;
    uint32_t unused;
    uint32_t max_index;
    uint32_t read_index;
    uint32_t write_index;
    uint32_t int_status;
    uint32_t base_low;
    uint32_t base_high;
} Ae4dmaRing;

struct Ae4dma {
    DmaEngine parent_obj;

    uint32_t queues;
    /* As the registers of a queue stand. */
    Ae4dmaRing ring[DMA_ENGINE_MAX_QUEUES];
};

static uint64_t ring_address(const Ae4dmaRing *ring)
{
    return ((uint64_t)ring->base_high << 32 | ring->base_low) +
           ring->read_index * DMA_ENGINE_DESCRIPTOR;
}

static bool ae4dma_fetch(DmaEngineQueue *queue, DmaEngineJob *job)
{
    Ae4dmaRing *ring = &AE4DMA(queue->dma)->ring[queue->index];
    uint32_t word[DMA_ENGINE_DESCRIPTOR / 4];

    if (!ring->max_index || ring->read_index == ring->write_index ||
        !dma_engine_read(queue->dma, ring_address(ring), word, sizeof(word))) {
        return false;
    }
    job->interrupt = le32_to_cpu(word[0]) & DESCRIPTOR_INTERRUPT;
    job->len = le32_to_cpu(word[2]);
    job->src = le32_to_cpu(word[4]) | (uint64_t)le32_to_cpu(word[5]) << 32;
    job->dst = le32_to_cpu(word[6]) | (uint64_t)le32_to_cpu(word[7]) << 32;
    job->error = job->len % 4 ? UNALIGNED_LENGTH :
                 job->src % 4 ? UNALIGNED_SRC :
                 job->dst % 4 ? UNALIGNED_DST : 0;
    if (job->error) {
        job->len = 0;
    }
    return true;
}

/* Says in the descriptor what became of it, unless that goes without saying, and goes on. */
static void ae4dma_finish(DmaEngineQueue *queue, uint32_t error)
{
    Ae4dmaRing *ring = &AE4DMA(queue->dma)->ring[queue->index];
    uint8_t result[2] = { error ? STATUS_ERROR : STATUS_COMPLETED, error };

    if (error || !queue->dma->knobs.silent_success) {
        dma_engine_write(queue->dma, ring_address(ring) + DESCRIPTOR_RESULT, result,
                         sizeof(result));
    }
    ring->read_index = (ring->read_index + 1) % ring->max_index;
    if (queue->job.interrupt) {
        ring->int_status |= INT_PENDING;
        dma_engine_interrupt(queue);
    }
}

static uint32_t ae4dma_read(DmaEngine *dma, hwaddr addr)
{
    Ae4dma *ae4 = AE4DMA(dma);
    unsigned int index = addr / QUEUE_SIZE - 1;

    if (addr < QUEUE_SIZE) {
        return addr == REG_QUEUES ? ae4->queues : 0;
    }
    if (index >= DMA_ENGINE_MAX_QUEUES) {
        return 0;
    }
    if (addr % QUEUE_SIZE == REG_CONTROL) {
        return dma->queue[index].run ? CONTROL_RUN : 0;
    }
    return ((uint32_t *)&ae4->ring[index])[addr % QUEUE_SIZE / 4];
}

static void ae4dma_write(DmaEngine *dma, hwaddr addr, uint32_t value)
{
    Ae4dma *ae4 = AE4DMA(dma);
    unsigned int index = addr / QUEUE_SIZE - 1;
    DmaEngineQueue *queue = &dma->queue[index];
    Ae4dmaRing *ring = &ae4->ring[index];

    /* The driver never starts a queue: they run as soon as it says how many it wants. */
    if (addr == REG_QUEUES) {
        ae4->queues = MIN(value, DMA_ENGINE_MAX_QUEUES);
        for (index = 0; index < ae4->queues; index++) {
            dma->queue[index].run = true;
        }
    }
    if (addr < QUEUE_SIZE || index >= DMA_ENGINE_MAX_QUEUES) {
        return;
    }
    switch (addr % QUEUE_SIZE) {
    case REG_CONTROL:
        if (value & CONTROL_RUN) {
            queue->run = true;
            dma_engine_kick(queue);
        } else {
            dma_engine_stop(queue);
        }
        break;
    case REG_READ_INDEX:
        break;
    case REG_WRITE_INDEX:
        ring->write_index = value;
        dma_engine_kick(queue);
        break;
    default:
        ((uint32_t *)ring)[addr % QUEUE_SIZE / 4] = value;
    }
}

static void ae4dma_reset(DmaEngine *dma)
{
    Ae4dma *ae4 = AE4DMA(dma);

    ae4->queues = 0;
    memset(ae4->ring, 0, sizeof(ae4->ring));
}

DMA_ENGINE_MODEL(ae4dma, Ae4dma,
    .vendor_id = PCI_VENDOR_ID_AMD, .device_id = 0x149b, .nr_queues = DMA_ENGINE_MAX_QUEUES,
    .registers_bar = 0, .msix_bar = 2, .registers_size = 4 * KiB, .bus_error = PTE_ERROR)
