"""Rules of the memory layer, one file each."""
