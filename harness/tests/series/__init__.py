"""Tests of harness.series."""
