"""Procedures: each a small algorithm over runs, which are given to it as a function from a variant to a record."""
