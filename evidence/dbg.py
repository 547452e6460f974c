p='qemu/ptdma.c'; s=open(p).read()
s=s.replace('''static void update_interrupt(Ptdma *pt)
{
''','''static struct { const void *dev; int64_t t; char op; uint32_t addr, value, st; int thr; } dbg_ring[65536];
static unsigned dbg_n, dbg_dumped;
static void dbg(Ptdma *pt, char op, uint32_t addr, uint32_t value)
{
    dbg_ring[dbg_n % 65536].dev = pt;
    dbg_ring[dbg_n % 65536].t = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    dbg_ring[dbg_n % 65536].op = op;
    dbg_ring[dbg_n % 65536].addr = addr;
    dbg_ring[dbg_n % 65536].value = value;
    dbg_ring[dbg_n % 65536].st = pt->int_status | (DMA_ENGINE(pt)->queue[0].busy << 8) | (DMA_ENGINE(pt)->queue[0].run << 12) | (pt->head != pt->tail) << 16;
    dbg_n++;
}
static unsigned dbg_storm;
static void dbg_check(Ptdma *pt)
{
    if (++dbg_storm > 300 && !dbg_dumped) {
        dbg_dumped = 1;
        for (unsigned i = dbg_n > 65536 ? dbg_n - 65536 : 0; i < dbg_n; i++) {
            if (dbg_ring[i % 65536].dev == pt) {
                fprintf(stderr, "D %ld %c %x %x st %x\\n", (long)dbg_ring[i % 65536].t, dbg_ring[i % 65536].op, dbg_ring[i % 65536].addr, dbg_ring[i % 65536].value, dbg_ring[i % 65536].st);
            }
        }
        fflush(stderr);
    }
}
static void update_interrupt(Ptdma *pt)
{
''')
s=s.replace('''    pt->pending = pending;
}''','''    dbg(pt, pending && !pt->pending ? 'N' : 'n', pt->int_enable, pt->int_status);
    pt->pending = pending;
}''',1)
s=s.replace('''    DmaEngineQueue *queue = &dma->queue[0];

    switch (addr) {
    case REG_CONTROL:
        pt->control''','''    DmaEngineQueue *queue = &dma->queue[0];

    dbg(pt, 'w', addr, value);
    if (addr == REG_INT_STATUS) dbg_storm = 0;
    if (addr == REG_INT_ENABLE && value && pt->int_status) dbg_check(pt);
    switch (addr) {
    case REG_CONTROL:
        pt->control''')
s=s.replace('''    Ptdma *pt = PTDMA(dma);

    switch (addr) {
    case REG_CONTROL:
        return''','''    Ptdma *pt = PTDMA(dma);

    dbg(pt, 'r', addr, 0);
    switch (addr) {
    case REG_CONTROL:
        return''')
s=s.replace('''    Ptdma *pt = PTDMA(queue->dma);

    if (error) {''','''    Ptdma *pt = PTDMA(queue->dma);

    dbg(pt, 'F', error, queue->job.len);
    if (error) {''')
open(p,'w').write(s)
