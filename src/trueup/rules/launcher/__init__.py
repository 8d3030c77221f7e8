"""Rules of the launcher layer, one file each."""
