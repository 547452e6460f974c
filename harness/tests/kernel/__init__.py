"""Tests of harness.kernel."""
