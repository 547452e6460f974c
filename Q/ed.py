import sys, pathlib
root = pathlib.Path('/work/s/Q/.cache/linux/7.3.4-1-bpo13+1/edit')
def sub(path, *pairs):
    f = root / path; t = f.read_text()
    for a, b in pairs:
        assert t.count(a) == 1, (path, t.count(a), a)
        t = t.replace(a, b)
    f.write_text(t)
def uffd():
    sub('mm/userfaultfd.c',
('	long ret = 0;\n\n	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, mm,\n				src_addr, src_addr + len);',
 '	bool migrates = false;\n	long ret = 0;\n\n	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, mm,\n				src_addr, src_addr + len);'),
('''			pte_unmap(src_pte);
			pte_unmap(dst_pte);
			src_pte = dst_pte = NULL;
			migration_entry_wait(mm, src_pmd, src_addr);

			ret = -EAGAIN;
''','''			migrates = true;
			ret = -EAGAIN;
'''),
('''	if (busy)
		folio_put_wait_locked(busy, TASK_KILLABLE);
''','''	if (busy)
		folio_put_wait_locked(busy, TASK_KILLABLE);
	if (migrates)
		migration_entry_wait(mm, src_pmd, src_addr);
'''))
def idxd():
    sub('drivers/dma/idxd/device.c',
('	LIST_HEAD(flist);\n	enum idxd_complete_type ctype;\n', '	LIST_HEAD(flist);\n'),
('		ctype = desc->completion->status ? IDXD_COMPLETE_NORMAL : IDXD_COMPLETE_ABORT;\n', ''),
('''		idxd_dma_complete_txd(desc, ctype, true, NULL, NULL);
	}
}

static void idxd_device_set_perm''','''		/* None is submitted again, whatever its record says. */
		idxd_dma_complete_txd(desc, IDXD_COMPLETE_ABORT, true, NULL, NULL);
	}
}

static void idxd_device_set_perm'''),
('''	if (percpu_ref_is_dying(&wq->wq_active))
		return;
	__idxd_wq_quiesce(wq);
	idxd_cmd_exec(''','''	/* A halt or a lost interrupt handle has quiesced it, but ended nothing. */
	if (!percpu_ref_is_dying(&wq->wq_active))
		__idxd_wq_quiesce(wq);
	idxd_cmd_exec('''))
def ioat():
    sub('drivers/dma/ioat/dma.c',
('''static void ioat_reboot_chan(struct ioatdma_chan *ioat_chan)
{
	spin_lock_bh(&ioat_chan->prep_lock);
	set_bit(IOAT_CHAN_DOWN, &ioat_chan->state);
	spin_unlock_bh(&ioat_chan->prep_lock);

	dev_warn(to_dev(ioat_chan), "Reset channel...\\n");
	ioat_reset_hw(ioat_chan);
''','''/* Let nothing more be submitted or issued. Return whether that was so. */
bool ioat_chan_down(struct ioatdma_chan *ioat_chan)
{
	guard(spinlock_bh)(&ioat_chan->prep_lock);
	ioat_chan->issued = ioat_chan->head;
	return test_and_set_bit(IOAT_CHAN_DOWN, &ioat_chan->state);
}

static void ioat_reboot_chan(struct ioatdma_chan *ioat_chan)
{
	/* ioat_shutdown() resets the channel, which must stay down. */
	if (ioat_chan_down(ioat_chan))
		return;

	dev_warn(to_dev(ioat_chan), "Reset channel...\\n");
	/* Hardware that has not stopped may still write: leave it down. */
	if (ioat_reset_hw(ioat_chan))
		return;
'''))
    sub('drivers/dma/ioat/dma.h',
('void ioat_abort_descs(struct ioatdma_chan *ioat_chan, int skip);\n',
 'void ioat_abort_descs(struct ioatdma_chan *ioat_chan, int skip);\nbool ioat_chan_down(struct ioatdma_chan *ioat_chan);\n'))
    sub('drivers/dma/ioat/init.c',
('''		spin_lock_bh(&ioat_chan->prep_lock);
		set_bit(IOAT_CHAN_DOWN, &ioat_chan->state);
		/* nothing is submitted or issued from here on */
		ioat_chan->issued = ioat_chan->head;
		spin_unlock_bh(&ioat_chan->prep_lock);
''','''		/* wait for a reset by the timer, which takes the channel up again */
		spin_lock_bh(&ioat_chan->cleanup_lock);
		ioat_chan_down(ioat_chan);
		spin_unlock_bh(&ioat_chan->cleanup_lock);
'''))
globals()[sys.argv[1]]()
