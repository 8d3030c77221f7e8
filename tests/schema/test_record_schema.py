"""The record survives its own JSON, a newer writer, and its JSON Schema."""

import copy
import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from trueup.schema.record import (
    SCHEMA_VERSION,
    Record,
    RecordError,
    record_from_json,
    record_json_schema,
    record_to_json,
)


def add_unknown_fields(value, known_type):
    """Put one unknown key into every typed value below `value`; the number of keys put in."""
    if isinstance(known_type, msgspec.inspect.StructType):
        inside = sum(add_unknown_fields(value[field.encode_name], field.type) for field in known_type.fields)
        value["of_a_newer_trueup"] = {"and": {"nested": True}}
        return inside + 1
    if isinstance(known_type, msgspec.inspect.VarTupleType):
        return sum(add_unknown_fields(item, known_type.item_type) for item in value)
    return 0


def test_a_full_record_comes_back_equal(full_record):
    assert record_from_json(record_to_json(full_record)) == full_record


def test_an_empty_record_comes_back_equal():
    assert record_from_json(record_to_json(Record())) == Record(schema_version=SCHEMA_VERSION)


def test_fields_of_a_newer_trueup_are_counted_at_every_depth(full_record_fields, full_record):
    newer = copy.deepcopy(full_record_fields)
    newer["schema_version"] = SCHEMA_VERSION + 1
    put_in = add_unknown_fields(newer, msgspec.inspect.type_info(Record))
    assert put_in > 40
    read = record_from_json(json.dumps(newer))
    assert read.unknown_fields == full_record.unknown_fields + put_in
    assert msgspec.structs.replace(read, unknown_fields=7, schema_version=7) == full_record


def test_keys_of_open_fields_are_not_unknown():
    text = json.dumps({"environment": {"anything": {"deep": 1}}, "requested": {"compile": {"mode": "x"}}})
    assert record_from_json(text).unknown_fields == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"steps": {"count": "many"}}', '{"ranks": [{}]}', b"\xff"])
def test_a_text_that_is_no_record_is_refused(text):
    with pytest.raises(RecordError, match="not a trueup record"):
        record_from_json(text)


def test_the_json_schema_accepts_what_is_written(full_record):
    schema = record_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(json.loads(record_to_json(full_record)))
    validator.validate(json.loads(record_to_json(Record())))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("steps", "count"), "many"),
        (("findings", 0, "severity"), "fatal"),
        (("findings", 0, "layers", 0), "gpu"),
        (("actual", "compile", "blocks", "compiled"), 1.5),
        (("ranks", 0, "rank"), None),
    ],
)
def test_the_json_schema_refuses_a_wrong_value(full_record_fields, path, wrong):
    *parents, last = path
    holder = full_record_fields
    for key in parents:
        holder = holder[key]
    holder[last] = wrong
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(full_record_fields, record_json_schema())


def test_the_keys_of_the_contract_are_there(full_record):
    written = json.loads(record_to_json(full_record))
    assert {"command", "duration_s", "exit", "environment", "ranks", "order", "requested", "actual"} <= set(written)
    assert {"compile", "attention", "sharding", "checkpointing", "precision", "adapter", "memory"} <= set(
        written["actual"]
    )
    assert {"fraction", "blocks", "graphs", "recompiles", "breaks", "seconds"} <= set(written["actual"]["compile"])
    assert {"total", "compiled"} <= set(written["actual"]["compile"]["blocks"])
    assert {"rule", "layers", "severity", "confidence", "message", "cause", "evidence", "remedies", "sources"} <= set(
        written["findings"][0]
    )
    assert {"count", "seconds", "losses"} <= set(written["steps"])


def test_the_documented_json_schema_is_the_one_of_the_types():
    documented = Path(__file__).parents[2] / "docs" / "record.schema.json"
    made = json.loads(json.dumps(record_json_schema()))  # defaults that are tuples become lists
    assert json.loads(documented.read_text(encoding="utf-8")) == made, "run `make docs`"
