"""Verdicts on what the laboratory measured."""
