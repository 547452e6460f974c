make check TURN=engines,faults ONLY=base-doctor-ptdma,base-doctor-ae4dma,base-doctor-pays,base-doctor-tiers,base-report,base-faults,debug-faults
