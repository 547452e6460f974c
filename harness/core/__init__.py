"""What every room needs: errors, paths, processes, locks, words for the user."""
