"""The attention benchmark: every kernel that serves a call on this device, measured side by side."""
