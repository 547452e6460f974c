"""Tests of harness.guest."""
