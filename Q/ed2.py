exec(open('/work/s/Q/ed.py').read().split('def uffd')[0])
import sys
def ioat():
    sub('drivers/dma/ioat/dma.c', ('''/* Let nothing more be submitted or issued. Return whether that was so. */
bool ioat_chan_down(struct ioatdma_chan *ioat_chan)
{
	guard(spinlock_bh)(&ioat_chan->prep_lock);
	ioat_chan->issued = ioat_chan->head;
	return test_and_set_bit(IOAT_CHAN_DOWN, &ioat_chan->state);
}

''',''),('''	/* ioat_shutdown() resets the channel, which must stay down. */
	if (ioat_chan_down(ioat_chan))
		return;

	dev_warn(to_dev(ioat_chan), "Reset channel...\\n");
	/* Hardware that has not stopped may still write: leave it down. */
''','''	if (test_and_set_bit(IOAT_CHAN_DOWN, &ioat_chan->state))
		return;
	spin_lock_bh(&ioat_chan->prep_lock);
	ioat_chan->issued = ioat_chan->head;
	spin_unlock_bh(&ioat_chan->prep_lock);

	dev_warn(to_dev(ioat_chan), "Reset channel...\\n");
'''))
    sub('drivers/dma/ioat/dma.h', ('bool ioat_chan_down(struct ioatdma_chan *ioat_chan);\n',''))
    sub('drivers/dma/ioat/init.c', ('''		/* wait for a reset by the timer, which takes the channel up again */
		spin_lock_bh(&ioat_chan->cleanup_lock);
		ioat_chan_down(ioat_chan);
		spin_unlock_bh(&ioat_chan->cleanup_lock);
''','''		spin_lock_bh(&ioat_chan->cleanup_lock);
		spin_lock_bh(&ioat_chan->prep_lock);
		set_bit(IOAT_CHAN_DOWN, &ioat_chan->state);
		/* nothing is submitted or issued from here on; no timer changes that */
		ioat_chan->issued = ioat_chan->head;
		spin_unlock_bh(&ioat_chan->prep_lock);
		spin_unlock_bh(&ioat_chan->cleanup_lock);
'''))
def idxd():
    sub('drivers/dma/idxd/device.c', ('		/* None is submitted again, whatever its record says. */\n',''),
    ('''	u32 operand = BIT(wq->id % 16) | ((wq->id / 16) << 16);
	u32 status;

	/* A halt''','''	u32 operand = BIT(wq->id % 16) | ((wq->id / 16) << 16), status;

	/* A halt'''))
globals()[sys.argv[1]]()
