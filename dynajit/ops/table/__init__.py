"""What a row of the op table is, and who runs it."""
