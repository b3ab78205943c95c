"""Known differences of data planes: facts, reasons and evidence, as data."""
