"""The series as people take it: export, check, build step by step."""
