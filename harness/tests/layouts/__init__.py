"""Tests of harness.layouts."""
