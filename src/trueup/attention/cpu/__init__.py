"""flash-attn on a machine without a GPU: its own Python layer over a stand-in of its extension."""
