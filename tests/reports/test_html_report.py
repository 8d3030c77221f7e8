"""The HTML report is one file that loads nothing, and text of the job is only ever text in it."""

from html.parser import HTMLParser

import msgspec
import pytest

from trueup.reports.html import LONGEST_TABLE, render
from trueup.schema.record import Applied, Record

VOID = {"meta", "br", "img", "input", "link", "hr", "polyline"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; raises when the tags are not nested."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes.extend(attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes.extend(attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def page(demo_record):
    return Page(render(demo_record))


def test_the_page_holds_the_verdict_stack_finding_and_tables(page):
    text = " ".join(page.text)
    for part in (
        "compile: 0/12 blocks compiled",
        "Module.compile: 12 × LlamaDecoderLayer",
        "compile/kv-cache-recompiles-each-block",
        "model(input_ids, labels=labels, use_cache=False)",
        "cache.layers[3].is_initialized == False",
        "Logger not supported",
        "aten::_scaled_dot_product_flash",
        "fully_shard",
        "gradient norms were observed",
    ):
        assert part in text


def test_the_page_is_self_contained(page):
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(page.tags)
    references = [value for name, value in page.attributes if name in ("href", "src", "xlink:href", "action")]
    assert references == ["https://github.com/huggingface/transformers/issues/1"]
    policy = [value for name, value in page.attributes if name == "content" and "default-src" in value]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_light_and_dark(demo_record):
    assert "color-scheme: light dark" in render(demo_record)
    assert "prefers-color-scheme: dark" in render(demo_record)


def test_markup_of_the_job_never_gets_through(hostile_record):
    source = render(hostile_record)
    page = Page(source)
    assert "script" not in page.tags
    assert not any(name.startswith("on") or (value or "").startswith("javascript:") for name, value in page.attributes)
    assert "\x1b" not in source
    assert "\u202e" not in source
    assert "{{ 7 * 7 }}" in " ".join(page.text), "a template in a log is shown, not evaluated"
    assert "&amp;lt;" not in source, "nothing is escaped twice"


def test_the_series_are_drawn_and_a_missing_loss_parts_the_line(page, demo_record):
    lines = [value.split() for name, value in page.attributes if name == "points"]
    assert page.tags.count("svg") == 2
    assert [len(points) for points in lines] == [20, 2, 18]
    assert lines[0][0] == "0.0,0.0"


def test_a_record_without_anything_still_makes_a_page():
    page = Page(render(Record()))
    assert "nothing observed: no rank has reported; no findings" in " ".join(page.text)
    assert "svg" not in page.tags


def test_a_record_with_every_field_makes_a_page(full_record):
    assert "é" in render(full_record)


def test_long_tables_are_cut_and_say_so(demo_record):
    order = tuple(Applied(layer="compile", event=f"event {number}") for number in range(LONGEST_TABLE + 5))
    source = render(msgspec.structs.replace(demo_record, order=order))
    assert "5 more stand in record.json" in source
    assert f"<td>event {LONGEST_TABLE + 1}</td>" not in source


def test_the_page_names_the_variant(demo_record):
    variant = {"name": "compile=off", "layers": {"compile": "off"}, "remedies": ["disable-kv-cache"]}
    text = " ".join(" ".join(Page(render(msgspec.structs.replace(demo_record, variant=variant))).text).split())
    assert "variant compile=off" in text
    assert "forced compile=off" in text
    assert "remedies disable-kv-cache" in text
