"""The permanent change that a remedy makes to the user's own files, as a diff; nothing here writes into them."""
