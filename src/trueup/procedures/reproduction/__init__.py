"""A script of its own that fails as a job did: written from the record, else cut out of the job's own script.

Everything here works on texts and asks for runs through `Checks`; `running` makes them.
"""
