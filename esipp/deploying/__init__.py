"""What a user wants of everything that a run creates, and where its images come from."""
