"""Source IP preservation: test 1.1 of the design proposal."""

TITLE = "Source IP"
ORDER = 10
