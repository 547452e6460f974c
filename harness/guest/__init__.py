"""Guests: QEMU, the initramfs, suites and their results."""
