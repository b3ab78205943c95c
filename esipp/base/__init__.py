"""What every room may use: errors, redaction, waiting, words. No room of ours is imported here."""
