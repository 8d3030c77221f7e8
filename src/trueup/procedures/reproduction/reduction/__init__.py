"""The job's own script, cut down to what still fails: changes of its text, each proved by a run."""
