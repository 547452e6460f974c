"""Unit tests of the host side: on recorded logs, no boot needed."""
