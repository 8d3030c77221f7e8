"""Code that runs inside the user's process. Only `bootstrap/` is ever put on the job's path, never this package."""
