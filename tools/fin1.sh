make check TURN=engines,faults ONLY=unit,lint,series
