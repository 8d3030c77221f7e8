"""Rules of the precision layer, one file each."""
