"""make mutants: break the code on purpose, and see a test go red."""
