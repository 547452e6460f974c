/*
 * Queues of descriptors that are copied as time passes: what the models of PTDMA and AE4DMA share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef AMD_DMA_H
#define AMD_DMA_H

#include "hw/pci/pci_device.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "qom/object.h"

#define TYPE_AMD_DMA "amd-dma"
OBJECT_DECLARE_TYPE(AmdDma, AmdDmaClass, AMD_DMA)

#define AMD_DMA_MAX_QUEUES 16
#define AMD_DMA_DESCRIPTOR 32

/*
 * Everything that can be set and read while the machine runs: by QMP, as a property of this name
 * ('_' is '-'), and by the guest, as the n-th 32-bit word of BAR 4. Tests there use the same list:
 * append only.
 */
#define AMD_DMA_KNOBS(knob)                                                                        \
    /* Parameters: of a descriptor without its bytes; of a queue by itself, 0 has no limit; */     \
    /* what both are multiplied by, in 1/100; bytes that move at once. */                          \
    knob(desc_ns) knob(mbps) knob(stretch) knob(piece)                                             \
    /* How long the processor waits for a register, in time of the host. */                        \
    knob(read_us)                                                                                  \
    /* A read of a status that tells of a completion waits that long at most for somebody else */  \
    /* to acknowledge it and to start the next descriptor; in time of the host. */                 \
    knob(hold_us)                                                                                  \
    /* Faults strike at every n-th descriptor or interrupt, never if 0; in all, limit times. */    \
    knob(error_every) knob(error_code) knob(hang_every) knob(lost_every) knob(late_every)          \
    knob(late_us) knob(limit)                                                                      \
    /* A queue that is stopped goes on that long: it writes, unless it hangs. */                   \
    knob(coast_us)                                                                                 \
    /* 1: nobody answers in the device's slot any more. */                                         \
    knob(gone)                                                                                     \
    /* What happened: descriptors done, interrupts sent, faults, bytes written after a stop. */    \
    knob(descriptors) knob(interrupts) knob(strikes) knob(stray)                                   \
    /* Queues that copy now. */                                                                    \
    knob(busy)                                                                                     \
    /* A fault: so long after a queue has told that it is done, it writes garbage once more, of */ \
    /* which memory or an IOMMU refuses so many. 0: it does not. */                                \
    knob(afterwards_us) knob(refused)                                                              \
    /* Faults that nothing tells of: every n-th descriptor is not copied; has one wrong bit. */    \
    knob(skip_every) knob(flip_every)

typedef struct AmdDmaKnobs {
#define KNOB_MEMBER(name) uint32_t name;
    AMD_DMA_KNOBS(KNOB_MEMBER)
#undef KNOB_MEMBER
} AmdDmaKnobs;

typedef struct AmdDmaJob {
    uint64_t src;
    uint64_t dst;
    uint32_t len;
    bool interrupt;
} AmdDmaJob;

typedef struct AmdDmaQueue {
    AmdDma *dma;
    unsigned int index;
    /* What the driver wants: fetch descriptors. */
    bool run;

    /* Of the descriptor in work: bytes done, and when the next piece is. */
    bool busy;
    AmdDmaJob job;
    uint32_t done;
    int64_t due;
    uint32_t error;
    bool hung;
    bool skipped;
    bool flipped;
    bool stopping;
    /* It was done, and is written once more. */
    bool again;
    int64_t stopped_at;

    QEMUTimer work;
    QEMUTimer late;
    QEMUTimer afterwards;
} AmdDmaQueue;

struct AmdDma {
    PCIDevice parent_obj;

    MemoryRegion registers;
    MemoryRegion knob_window;
    AmdDmaKnobs knobs;
    char *bandwidth;
    AmdDmaQueue queue[AMD_DMA_MAX_QUEUES];
    unsigned int descriptors_seen;
    unsigned int interrupts_seen;
};

struct AmdDmaClass {
    PCIDeviceClass parent_class;

    unsigned int nr_queues;
    uint8_t registers_bar;
    uint8_t msix_bar;
    uint32_t registers_size;
    /* The error code of an access that memory or an IOMMU refuses. */
    uint32_t bus_error;

    uint32_t (*read)(AmdDma *dma, hwaddr addr);
    void (*write)(AmdDma *dma, hwaddr addr, uint32_t value);
    /* Takes the next descriptor; false if there is none. */
    bool (*fetch)(AmdDmaQueue *queue, AmdDmaJob *job);
    /* The descriptor in work has ended, with an error unless it is 0. */
    void (*finish)(AmdDmaQueue *queue, uint32_t error);
    /* Reset of registers. */
    void (*reset)(AmdDma *dma);
};

/* There may be descriptors: the queue begins to copy if it runs and has nothing else to do. */
void amd_dma_kick(AmdDmaQueue *queue);

/* The queue fetches no more. It ends the descriptor in work, unless that hangs. */
void amd_dma_stop(AmdDmaQueue *queue);

/* False as long as the queue may write to memory, or fetch descriptors. */
static inline bool amd_dma_halted(const AmdDmaQueue *queue)
{
    return !queue->run && !queue->busy;
}

void amd_dma_interrupt(AmdDmaQueue *queue);

bool amd_dma_read(AmdDma *dma, uint64_t addr, void *buf, uint32_t len);
bool amd_dma_write(AmdDma *dma, uint64_t addr, const void *buf, uint32_t len);

/* Without the big lock, until done() is true, and @us at most: other processors go on. */
void amd_dma_wait(AmdDma *dma, uint32_t us, bool (*done)(AmdDma *dma));

#endif
