"""From a pristine source to a patched tree, a kernel and programs."""
