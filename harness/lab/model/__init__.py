"""Presets, published figures and the fit, with which measurements are compared."""
