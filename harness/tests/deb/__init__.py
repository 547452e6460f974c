"""Tests of harness.deb."""
