"""The names under which parts of the instrument fail, and switch themselves off, each by itself."""

import sys

from trueup.runs.injection import bootstrap_folder

sys.path.insert(0, str(bootstrap_folder()))

from trueup_instrument import observers
from trueup_instrument.observers import samples

OBSERVERS = observers.NAMES
PARTS = tuple(part.NAME for part in samples.PARTS)
INNER = ("sampling", "frames", "operators", "evaluations", "model", "losses")
