"""Tables and pictures of the laboratory."""
