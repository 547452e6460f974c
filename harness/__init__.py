"""Host side of the project: source, patches, build, image, guest, tests, reports."""
