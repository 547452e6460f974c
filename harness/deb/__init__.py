"""Debian packages of the kernel and its tools, and a Debian 13 machine that has them."""
