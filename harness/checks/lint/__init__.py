"""make lint: checkpatch, compilers, documentation, names."""
