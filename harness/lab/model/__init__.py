"""What measurements are compared with: presets, published figures, the fit."""
