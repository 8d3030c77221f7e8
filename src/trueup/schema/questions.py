"""What `--probe` can ask of a job: questions that looking on does not answer, only an extra computation."""

from __future__ import annotations

QUESTIONS = {"packing": "does a document of a packed row change the results of later ones?"}
"""Name of a probe → the question."""
