/*
 * AMD AE4DMA, as its driver in Linux sees it: a PCI function with up to 16 queues, each a ring of
 * descriptors with an interrupt of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "amd_dma.h"

#define TYPE_AE4DMA "ae4dma"
OBJECT_DECLARE_SIMPLE_TYPE(Ae4dma, AE4DMA)

#define REG_QUEUES 0x00

/* Of each queue; queue 0 is at QUEUE_SIZE. */
#define QUEUE_SIZE 0x20
#define REG_CONTROL 0x00
#define REG_MAX_INDEX 0x08
#define REG_READ_INDEX 0x0c
#define REG_WRITE_INDEX 0x10
#define REG_INT_STATUS 0x14
#define REG_BASE_LOW 0x18
#define REG_BASE_HIGH 0x1c

#define CONTROL_RUN 0x1
#define INT_PENDING 0x1

#define DESCRIPTOR_INTERRUPT 0x2
#define DESCRIPTOR_RESULT 4
#define STATUS_COMPLETED 3
#define STATUS_ERROR 4

#define PTE_ERROR 64

typedef struct Ae4dmaRing {
    uint32_t max_index;
    uint32_t read_index;
    uint32_t write_index;
    uint32_t int_status;
    uint32_t base_low;
    uint32_t base_high;
} Ae4dmaRing;

struct Ae4dma {
    AmdDma parent_obj;

    uint32_t queues;
    Ae4dmaRing ring[AMD_DMA_MAX_QUEUES];
};

static uint64_t ring_address(const Ae4dmaRing *ring)
{
    return ((uint64_t)ring->base_high << 32 | ring->base_low) +
           ring->read_index * AMD_DMA_DESCRIPTOR;
}

static bool ae4dma_fetch(AmdDmaQueue *queue, AmdDmaJob *job)
{
    Ae4dmaRing *ring = &AE4DMA(queue->dma)->ring[queue->index];
    uint32_t word[AMD_DMA_DESCRIPTOR / 4];

    if (!ring->max_index || ring->read_index == ring->write_index ||
        !amd_dma_read(queue->dma, ring_address(ring), word, sizeof(word))) {
        return false;
    }
    job->interrupt = le32_to_cpu(word[0]) & DESCRIPTOR_INTERRUPT;
    job->len = le32_to_cpu(word[2]);
    job->src = le32_to_cpu(word[4]) | (uint64_t)le32_to_cpu(word[5]) << 32;
    job->dst = le32_to_cpu(word[6]) | (uint64_t)le32_to_cpu(word[7]) << 32;
    return true;
}

/* Says in the descriptor what became of it, and goes on. */
static void ae4dma_finish(AmdDmaQueue *queue, uint32_t error)
{
    Ae4dmaRing *ring = &AE4DMA(queue->dma)->ring[queue->index];
    uint8_t result[2] = { error ? STATUS_ERROR : STATUS_COMPLETED, error };

    amd_dma_write(queue->dma, ring_address(ring) + DESCRIPTOR_RESULT, result, sizeof(result));
    ring->read_index = (ring->read_index + 1) % ring->max_index;
    if (queue->job.interrupt) {
        ring->int_status |= INT_PENDING;
        amd_dma_interrupt(queue);
    }
}

static uint32_t ae4dma_read(AmdDma *dma, hwaddr addr)
{
    Ae4dma *ae4 = AE4DMA(dma);
    Ae4dmaRing *ring = &ae4->ring[addr / QUEUE_SIZE - 1];

    if (addr < QUEUE_SIZE) {
        return addr == REG_QUEUES ? ae4->queues : 0;
    }
    if (addr / QUEUE_SIZE > AMD_DMA_MAX_QUEUES) {
        return 0;
    }
    switch (addr % QUEUE_SIZE) {
    case REG_CONTROL:
        return dma->queue[addr / QUEUE_SIZE - 1].run ? CONTROL_RUN : 0;
    case REG_MAX_INDEX:
        return ring->max_index;
    case REG_READ_INDEX:
        return ring->read_index;
    case REG_WRITE_INDEX:
        return ring->write_index;
    case REG_INT_STATUS:
        return ring->int_status;
    case REG_BASE_LOW:
        return ring->base_low;
    case REG_BASE_HIGH:
        return ring->base_high;
    default:
        return 0;
    }
}

static void ae4dma_write(AmdDma *dma, hwaddr addr, uint32_t value)
{
    Ae4dma *ae4 = AE4DMA(dma);
    unsigned int index = addr / QUEUE_SIZE - 1;
    AmdDmaQueue *queue = &dma->queue[index];
    Ae4dmaRing *ring = &ae4->ring[index];

    /* The driver never starts a queue: they run as soon as it says how many it wants. */
    if (addr == REG_QUEUES) {
        ae4->queues = MIN(value, AMD_DMA_MAX_QUEUES);
        for (index = 0; index < ae4->queues; index++) {
            dma->queue[index].run = true;
        }
    }
    if (addr < QUEUE_SIZE || index >= AMD_DMA_MAX_QUEUES) {
        return;
    }
    switch (addr % QUEUE_SIZE) {
    case REG_CONTROL:
        if (value & CONTROL_RUN) {
            queue->run = true;
            amd_dma_kick(queue);
        } else {
            amd_dma_stop(queue);
        }
        break;
    case REG_MAX_INDEX:
        ring->max_index = value;
        break;
    case REG_WRITE_INDEX:
        ring->write_index = value;
        amd_dma_kick(queue);
        break;
    case REG_INT_STATUS:
        ring->int_status = value;
        break;
    case REG_BASE_LOW:
        ring->base_low = value;
        break;
    case REG_BASE_HIGH:
        ring->base_high = value;
        break;
    }
}

static void ae4dma_reset(AmdDma *dma)
{
    Ae4dma *ae4 = AE4DMA(dma);

    ae4->queues = 0;
    memset(ae4->ring, 0, sizeof(ae4->ring));
}

static void ae4dma_class_init(ObjectClass *klass, void *data)
{
    AmdDmaClass *class = AMD_DMA_CLASS(klass);

    class->parent_class.device_id = 0x149b;
    class->nr_queues = AMD_DMA_MAX_QUEUES;
    class->registers_bar = 0;
    class->msix_bar = 2;
    class->registers_size = 4 * KiB;
    class->bus_error = PTE_ERROR;
    class->read = ae4dma_read;
    class->write = ae4dma_write;
    class->fetch = ae4dma_fetch;
    class->finish = ae4dma_finish;
    class->reset = ae4dma_reset;
}

static const TypeInfo ae4dma_type = {
    .name = TYPE_AE4DMA,
    .parent = TYPE_AMD_DMA,
    .instance_size = sizeof(Ae4dma),
    .class_init = ae4dma_class_init,
};

static void ae4dma_register_types(void)
{
    type_register_static(&ae4dma_type);
}
type_init(ae4dma_register_types)
