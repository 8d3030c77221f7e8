"""Typed, frozen values that every part of trueup exchanges; nothing here reads or writes a file."""
