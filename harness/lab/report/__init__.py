"""What the laboratory shows: tables and pictures."""
