"""The laboratory: a real kernel, a modelled engine, virtual time."""
