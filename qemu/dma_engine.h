/*
 * Queues of descriptors that are copied as time passes: what the models of engines share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef DMA_ENGINE_H
#define DMA_ENGINE_H

#include "hw/pci/pci_device.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "qom/object.h"

#define TYPE_DMA_ENGINE "dma-engine"
OBJECT_DECLARE_TYPE(DmaEngine, DmaEngineClass, DMA_ENGINE)

#define DMA_ENGINE_MAX_QUEUES 16
#define DMA_ENGINE_DESCRIPTOR 32

/*
 * Everything that can be set and read while the machine runs: by QMP, as a property of this name
 * ('_' is '-'), and by the guest, as the n-th 32-bit word of BAR 4. Tests there use the same list:
 * append only.
 */
#define DMA_ENGINE_KNOBS(knob)                                                                     \
    /* Parameters: of a descriptor without its bytes; of a queue by itself, 0 has no limit; */     \
    /* what both are multiplied by, in 1/100; bytes that move at once. */                          \
    knob(desc_ns) knob(mbps) knob(stretch) knob(piece)                                             \
    /* How long a processor waits that reads or writes a register, where several processors */     \
    /* run side by side in virtual time (quantum.patch). */                                        \
    knob(access_us)                                                                                \
    /* Faults strike at every n-th descriptor or interrupt, never if 0; in all, limit times. */    \
    knob(error_every) knob(error_code) knob(hang_every) knob(lost_every) knob(late_every)          \
    knob(late_us) knob(limit)                                                                      \
    /* A queue that is stopped goes on that long: it writes, unless it hangs. */                   \
    knob(coast_us)                                                                                 \
    /* 1: no device answers in the slot any more. */                                               \
    knob(gone)                                                                                     \
    /* What happened: descriptors done, interrupts sent, faults, bytes written after a stop. */    \
    knob(descriptors) knob(interrupts) knob(strikes) knob(stray)                                   \
    /* Queues that copy now. */                                                                    \
    knob(busy)                                                                                     \
    /* A fault: so long after a queue has told that it is done, it writes garbage once more, of */ \
    /* which memory or an IOMMU refuses so many. 0: it does not. */                                \
    knob(afterwards_us) knob(refused)                                                              \
    /* Faults that nothing tells of: every n-th descriptor is not copied; has one wrong bit. */    \
    knob(skip_every) knob(flip_every)                                                              \
    /* Of DSA: every n-th descriptor overtakes all that wait, and every n-th record is written */  \
    /* late_us after its interrupt. */                                                             \
    knob(reorder_every) knob(late_record_every)                                                    \
    /* Of PTDMA, where its driver leaves open how hardware is. 1: RUN does not outlast the ring. */ \
    knob(run_drops_when_empty)                                                                     \
    /* 1: the head register passes a descriptor when that is read, not when it has ended. */       \
    knob(head_on_fetch)                                                                            \
    /* 1: it stands behind a descriptor that failed, not at it. */                                 \
    knob(head_past_error)                                                                          \
    /* 1: HALT is set as soon as RUN is not, while the queue still writes. */                      \
    knob(early_halt)                                                                               \
    /* Of all. 1: registers are lost when the device comes back from D3; an FLR always resets. */  \
    knob(reset_registers)                                                                          \
    /* 1: a read of a register times out, and is all ones, while a queue copies. */                \
    knob(reads_time_out)                                                                           \
    /* Of AE4DMA. 1: the status of a descriptor is written if it failed, and not otherwise. */     \
    knob(silent_success)                                                                           \
    /* So long after this is set the device is without power for a moment: registers are lost. */  \
    knob(no_power_us)

typedef struct DmaEngineKnobs {
#define KNOB_MEMBER(name) uint32_t name;
    DMA_ENGINE_KNOBS(KNOB_MEMBER)
#undef KNOB_MEMBER
} DmaEngineKnobs;

typedef struct DmaEngineJob {
    uint64_t src;
    uint64_t dst;
    uint32_t len;
    bool interrupt;
    /* Not 0: the engine refuses the descriptor. */
    uint32_t error;
} DmaEngineJob;

typedef struct DmaEngineQueue {
    DmaEngine *dma;
    unsigned int index;
    unsigned int vector;
    /* What the driver wants: fetch descriptors. */
    bool run;

    /* Of the descriptor in work: bytes done, and when the next piece is. */
    bool busy;
    DmaEngineJob job;
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
} DmaEngineQueue;

typedef struct DmaEngineModel DmaEngineModel;

struct DmaEngine {
    PCIDevice parent_obj;
    const DmaEngineModel *model;
    MemoryRegion registers;
    MemoryRegion knob_window;
    DmaEngineKnobs knobs;
    char *bandwidth;
    QEMUTimer no_power;
    DmaEngineQueue queue[DMA_ENGINE_MAX_QUEUES];
    unsigned int descriptors_seen;
    unsigned int interrupts_seen;
};

struct DmaEngineClass {
    PCIDeviceClass parent_class;
    const DmaEngineModel *model;
};

struct DmaEngineModel {
    uint16_t vendor_id;
    uint16_t device_id;
    unsigned int nr_queues;
    /* The MSI-X vector of queue 0; those before it are not for queues. */
    unsigned int first_vector;
    uint8_t registers_bar;
    uint8_t msix_bar;
    uint32_t registers_size;
    /* The error code of an access that memory or an IOMMU refuses. */
    uint32_t bus_error;

    /* NULL if there is nothing to add to what all have. */
    void (*realize)(DmaEngine *dma);
    uint32_t (*read)(DmaEngine *dma, hwaddr addr);
    void (*write)(DmaEngine *dma, hwaddr addr, uint32_t value);
    /* Takes the next descriptor; false if there is none. */
    bool (*fetch)(DmaEngineQueue *queue, DmaEngineJob *job);
    /* The descriptor in work has ended, with an error unless it is 0. */
    void (*finish)(DmaEngineQueue *queue, uint32_t error);
    /* A queue that was stopped has nothing in work any more; may be NULL. */
    void (*stopped)(DmaEngineQueue *queue);
    /* Reset of registers. */
    void (*reset)(DmaEngine *dma);
};

void dma_engine_model_class_init(ObjectClass *class, void *model);

/* The type of a device: its name, the structure of an instance, and what is its own. */
#define DMA_ENGINE_MODEL(name_, Type, ...)                                                         \
    static const DmaEngineModel name_##_model = {                                                  \
        .read = name_##_read, .write = name_##_write, .reset = name_##_reset,                      \
        .fetch = name_##_fetch, .finish = name_##_finish, __VA_ARGS__                              \
    };                                                                                             \
    static const TypeInfo name_##_types[] = { {                                                    \
        .name = #name_, .parent = TYPE_DMA_ENGINE, .instance_size = sizeof(Type),                  \
        .class_init = dma_engine_model_class_init, .class_data = (void *)&name_##_model,           \
    } };                                                                                           \
    DEFINE_TYPES(name_##_types)

/* There may be descriptors: the queue begins to copy if it runs and has nothing else to do. */
void dma_engine_kick(DmaEngineQueue *queue);

/* The queue fetches no more. It ends the descriptor in work, unless that hangs. */
void dma_engine_stop(DmaEngineQueue *queue);

/* False as long as the queue may write to memory, or fetch descriptors. */
static inline bool dma_engine_halted(const DmaEngineQueue *queue)
{
    return !queue->run && !queue->busy;
}

void dma_engine_interrupt(DmaEngineQueue *queue);

/* Whether a fault strikes at the event that is counted by @seen; then it is counted as well. */
bool dma_engine_strikes(DmaEngine *dma, uint32_t every, unsigned int seen);

bool dma_engine_read(DmaEngine *dma, uint64_t addr, void *buf, uint32_t len);
bool dma_engine_write(DmaEngine *dma, uint64_t addr, const void *buf, uint32_t len);

#endif
