"""Rules of the adapter layer, one file each."""
