"""Runs another job with observers that fail whenever they have something to say."""

import runpy
import sys

from trueup_instrument.announcements import Announcements


def fail(*args, **kwargs):
    raise ZeroDivisionError("sabotaged")


Announcements.layer = fail
Announcements.request = fail
runpy.run_path(sys.argv[1], run_name="__main__")
