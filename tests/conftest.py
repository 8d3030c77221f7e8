"""Values with every field filled, made from the types, so that a new field is tested without being listed here."""

import contextlib
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from trueup.schema.record import Record

with contextlib.suppress(ImportError):  # Inductor asks for it in a test; it replaces no distutils that came first
    import setuptools  # noqa: F401


def filled(kind: inspect.Type, name: str = "") -> Any:
    """A builtin value of `kind` in which no field keeps its default."""
    match kind:
        case inspect.StructType(fields=fields):
            return {field.encode_name: filled(field.type, field.name) for field in fields}
        case inspect.UnionType(types=types):
            return filled(next(each for each in types if not isinstance(each, inspect.NoneType)), name)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return [filled(item, name), filled(item, name)]
        case inspect.DictType(value_type=value):
            return {"first": filled(value, name), "second": filled(value, name)}
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.StrType():
            return f"{name} é"
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 0.25
        case inspect.AnyType():
            return {"nested": [1, "two", None]}
    raise TypeError(f"the record has a field of a kind that this walk does not know: {kind}")


@pytest.fixture
def full_record_fields() -> dict[str, Any]:
    return filled(inspect.type_info(Record))


@pytest.fixture
def full_record(full_record_fields) -> Record:
    return msgspec.convert(full_record_fields, Record)
