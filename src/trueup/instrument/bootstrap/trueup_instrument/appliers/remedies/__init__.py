"""What cures a finding, applied inside each rank of an unmodified command: one file per remedy, named after its id.

Each file has `attach(switch)`, which patches the library's own functions as soon as their module is imported, changes
nothing else, and tells each change with the user's line.
"""
