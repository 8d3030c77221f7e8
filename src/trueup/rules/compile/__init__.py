"""Rules of the compile layer, one file each."""
