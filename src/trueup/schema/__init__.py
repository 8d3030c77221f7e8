"""Typed, frozen values that every part of trueup exchanges; no input or output happens here beyond text in and text out."""
