"""Tests of harness.checks."""
