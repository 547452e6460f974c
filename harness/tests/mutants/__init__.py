"""Tests of make mutants."""
