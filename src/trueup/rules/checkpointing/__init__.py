"""Rules of the checkpointing layer, one file each."""
