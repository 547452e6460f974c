"""Random layouts of memory against vanilla."""
