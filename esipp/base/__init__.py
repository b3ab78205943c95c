"""What every room may use: errors, redaction, waiting, clocks, labels."""
