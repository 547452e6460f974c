"""Benchmarks that run on this machine at native speed."""
