"""Time stamps of all printed forms as one comparable number."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: at for at, name in enumerate(_NAMES, 1)}
_ISO = re.compile(r"\d{4}[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T_](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)")
_GLOG = re.compile(r"(?P<month>\d\d?)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)$")
_AMERICAN = re.compile(r"(?P<month>\d\d)[/-](?P<day>\d\d)(?:/\d{2,4})? (?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)")
_SYSLOG = re.compile(
    r"(?:[A-Z][a-z]{2} )?(?P<name>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)"
)
_EPOCH = re.compile(r"\d{10}(?:\.\d+)?$")


def moment(text: str | None) -> float | None:
    """Seconds since the start of a year of 31-day months; None for a form without a date.

    Half of the forms have no year and none of them a reliable zone, so only times of one job can be compared.
    """
    if not text:
        return None
    if _EPOCH.match(text):
        text = datetime.fromtimestamp(float(text), timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
    found = _ISO.match(text) or _GLOG.match(text) or _AMERICAN.match(text) or _SYSLOG.match(text)
    if not found:
        return None
    values = found.groupdict()
    month = _MONTHS.get(values["name"], 0) if values.get("name") else int(values["month"])
    hours, minutes, seconds = values["clock"].replace(",", ".").split(":")
    days = month * 31 + int(values["day"])
    return days * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
