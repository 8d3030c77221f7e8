"""Rules of the sharding layer, one file each."""
