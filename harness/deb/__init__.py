"""Debian packages of the kernel and its tools; harness/checks/debian.py tries them."""
