/*
 * Intel IOAT (CBDMA, QuickData) 3.4, as its driver in Linux sees it (drivers/dma/ioat): a PCI
 * function with one channel, a chain of descriptors. "init.c", "dma.c" and the other files that
 * comments name are the driver's: they are all that is known here of a register.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "dma_engine.h"

#define TYPE_IOAT "ioat"
OBJECT_DECLARE_SIMPLE_TYPE(Ioat, IOAT)

/* Names and bits: registers.h. */
#define REG_CHANNELS 0x00
#define REG_TRANSFER_LOG2 0x01
#define REG_INTERRUPTS 0x03
#define REG_VERSION 0x08

/* Of the channel; these of a version above 2.0. */
#define REG_CONTROL 0x80
#define REG_COMMAND 0x84
#define REG_COUNT 0x86
#define REG_STATUS_LOW 0x88
#define REG_STATUS_HIGH 0x8c
#define REG_CHAIN_LOW 0x90
#define REG_CHAIN_HIGH 0x94
#define REG_COMPLETION_LOW 0x98
#define REG_COMPLETION_HIGH 0x9c
#define REG_ERROR 0xa8

#define VERSION_3_4 0x34
/* 1 MB: the driver cuts what is longer (prep.c: ioat_dma_prep_memcpy_lock()). */
#define TRANSFER_LOG2 20

#define INTERRUPTS_ON 0x1

#define CONTROL_REARM 0x1
#define CONTROL_ERROR_COMPLETION 0x4
#define CONTROL_ERROR_INTERRUPT 0x10

#define COMMAND_SUSPEND 0x04
#define COMMAND_RESUME 0x10
#define COMMAND_RESET 0x20

#define STATUS_ACTIVE 0
#define STATUS_DONE 1
#define STATUS_SUSPENDED 2
#define STATUS_HALTED 3

#define ERROR_NEXT_ADDRESS 0x4
#define ERROR_READ_DATA 0x100
#define ERROR_CONTROL 0x400
#define ERROR_LENGTH 0x800

/* hw.h: struct ioat_dma_descriptor, as words of 64 bits. */
#define DESCRIPTOR_WORDS 8
#define CONTROL_WORD_INTERRUPT 0x01
#define CONTROL_WORD_COMPLETION 0x08
#define CONTROL_WORD_NULL 0x20
#define CONTROL_WORD_OPERATION 0xff000000U

struct Ioat {
    DmaEngine parent_obj;

    uint32_t interrupts;
    uint32_t control;
    uint64_t chain;
    uint64_t completion;
    uint32_t error;
    /* Descriptors issued since the chain was set, and those of them that are done. */
    uint16_t issued;
    uint16_t done;
    /* The descriptor in work, the one behind it, and the last that is done; 0 is none. */
    uint64_t current;
    uint64_t next;
    uint64_t completed;
    uint32_t flags;

    bool halted;
    /* What is in work when the channel is reset tells of nothing. */
    bool resetting;
    /* An interrupt goes out at once; otherwise it waits for CONTROL_REARM. */
    bool armed;
    bool pending;
};

static void interrupt(Ioat *io)
{
    io->pending = true;
    if (io->armed && io->interrupts & INTERRUPTS_ON) {
        io->armed = false;
        io->pending = false;
        dma_engine_interrupt(&DMA_ENGINE(io)->queue[0]);
    }
}

/* As is_ioat_active() and others in dma.h name it. */
static uint32_t status(const Ioat *io)
{
    const DmaEngineQueue *queue = &DMA_ENGINE(io)->queue[0];

    if (io->halted) {
        return STATUS_HALTED;
    }
    if (queue->busy || (queue->run && io->done != io->issued)) {
        return STATUS_ACTIVE;
    }
    return queue->run ? STATUS_DONE : STATUS_SUSPENDED;
}

/* In dma.c ioat_get_current_completion() reads the address, and ioat_cleanup() the status. */
static void write_completion(Ioat *io)
{
    uint64_t value = cpu_to_le64(io->completed | status(io));

    dma_engine_write(DMA_ENGINE(io), io->completion, &value, sizeof(value));
}

static void halt(Ioat *io, uint32_t error)
{
    io->halted = true;
    io->error |= error;
    DMA_ENGINE(io)->queue[0].run = false;
    if (io->control & CONTROL_ERROR_COMPLETION) {
        write_completion(io);
    }
    if (io->control & CONTROL_ERROR_INTERRUPT) {
        interrupt(io);
    }
}

static bool ioat_fetch(DmaEngineQueue *queue, DmaEngineJob *job)
{
    Ioat *io = IOAT(queue->dma);
    uint64_t word[DESCRIPTOR_WORDS];

    if (io->done == io->issued) {
        return false;
    }
    if (!dma_engine_read(queue->dma, io->next, word, sizeof(word))) {
        halt(io, ERROR_NEXT_ADDRESS);
        return false;
    }
    io->current = io->next;
    io->next = le64_to_cpu(word[3]);
    io->flags = le64_to_cpu(word[0]) >> 32;
    job->len = le64_to_cpu(word[0]);
    job->src = le64_to_cpu(word[1]);
    job->dst = le64_to_cpu(word[2]);
    /* Size 0 is an error also where nothing is copied: __ioat_start_null_desc() in dma.c. */
    if (!job->len || job->len > 1 << TRANSFER_LOG2 || io->flags & CONTROL_WORD_OPERATION) {
        halt(io, io->flags & CONTROL_WORD_OPERATION ? ERROR_CONTROL : ERROR_LENGTH);
        return false;
    }
    if (io->flags & CONTROL_WORD_NULL) {
        job->len = 0;
    }
    return true;
}

/* The channel stops at a descriptor that failed: ioat_eh() in dma.c. */
static void ioat_finish(DmaEngineQueue *queue, uint32_t error)
{
    Ioat *io = IOAT(queue->dma);

    if (io->resetting) {
        return;
    }
    if (error) {
        halt(io, error);
        return;
    }
    io->completed = io->current;
    io->done++;
    if (io->flags & CONTROL_WORD_COMPLETION) {
        write_completion(io);
    }
    if (io->flags & CONTROL_WORD_INTERRUPT) {
        interrupt(io);
    }
}

/*
 * The control register survives, and interrupts are armed: ioat_restart_channel() in dma.c relies
 * on that after ioat_reset_hw().
 */
static void end_reset(Ioat *io)
{
    if (!io->resetting || !dma_engine_halted(&DMA_ENGINE(io)->queue[0])) {
        return;
    }
    io->resetting = io->halted = io->pending = false;
    io->armed = true;
    io->issued = io->done = 0;
    io->completed = io->next = 0;
    io->error = 0;
}

static uint32_t ioat_read(DmaEngine *dma, hwaddr addr)
{
    Ioat *io = IOAT(dma);

    end_reset(io);
    switch (addr) {
    case REG_CHANNELS:
        return 1;
    case REG_TRANSFER_LOG2:
        return TRANSFER_LOG2;
    case REG_INTERRUPTS:
        return io->interrupts;
    case REG_VERSION:
        return VERSION_3_4;
    case REG_COMMAND:
        return io->resetting ? COMMAND_RESET : 0;
    case REG_STATUS_LOW:
        return io->completed | status(io);
    case REG_STATUS_HIGH:
        return io->completed >> 32;
    case REG_ERROR:
        return io->error;
    default:
        return 0;
    }
}

static void command(Ioat *io, uint32_t value)
{
    DmaEngineQueue *queue = &DMA_ENGINE(io)->queue[0];

    if (value & COMMAND_RESET) {
        io->resetting = true;
    }
    if (value & (COMMAND_RESET | COMMAND_SUSPEND)) {
        dma_engine_stop(queue);
    } else if (value & COMMAND_RESUME && !io->halted) {
        queue->run = true;
        dma_engine_kick(queue);
    }
}

static void ioat_write(DmaEngine *dma, hwaddr addr, uint32_t value)
{
    Ioat *io = IOAT(dma);
    DmaEngineQueue *queue = &dma->queue[0];

    end_reset(io);
    switch (addr) {
    case REG_INTERRUPTS:
        io->interrupts = value;
        break;
    case REG_CONTROL:
        io->control = value & ~CONTROL_REARM;
        if (value & CONTROL_REARM) {
            io->armed = true;
            if (io->pending) {
                interrupt(io);
            }
        }
        break;
    case REG_COMMAND:
        command(io, value);
        break;
    case REG_COUNT:
        io->issued = value;
        dma_engine_kick(queue);
        break;
    case REG_CHAIN_LOW:
        io->chain = deposit64(io->chain, 0, 32, value);
        break;
    case REG_CHAIN_HIGH:
        /* A new chain, whose count begins at 0, in any state: __ioat_restart_chan() in dma.c. */
        io->chain = deposit64(io->chain, 32, 32, value);
        io->next = io->chain;
        io->issued = io->done = 0;
        io->halted = false;
        queue->run = !io->resetting;
        break;
    case REG_COMPLETION_LOW:
        io->completion = deposit64(io->completion, 0, 32, value);
        break;
    case REG_COMPLETION_HIGH:
        io->completion = deposit64(io->completion, 32, 32, value);
        break;
    case REG_ERROR:
        io->error &= ~value;
        break;
    }
}

static void ioat_reset(DmaEngine *dma)
{
    Ioat *io = IOAT(dma);

    io->interrupts = io->control = 0;
    io->chain = io->completion = 0;
    io->resetting = true;
    end_reset(io);
}

DMA_ENGINE_MODEL(ioat, Ioat,
    .vendor_id = PCI_VENDOR_ID_INTEL, .device_id = 0x0b00, .nr_queues = 1, .registers_bar = 0,
    .msix_bar = 2, .registers_size = 16 * KiB, .bus_error = ERROR_READ_DATA)
