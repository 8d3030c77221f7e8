"""Rules of the attention layer, one file each."""
