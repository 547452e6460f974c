"""Tests of harness.bench."""
