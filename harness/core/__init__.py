"""Errors, paths, processes, locks, words for the user: all rooms use them."""
