"""Events of all processes into the parts of a record, one part a file; pure functions that judge nothing."""
