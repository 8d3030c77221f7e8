"""Rules of the trainer layer, one file each."""
