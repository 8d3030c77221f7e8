"""Attention: the cache that training does not need, the implementation asked for, switches and masks."""

from __future__ import annotations

import re

import libcst as cst

from trueup.edits.calls import argument, is_open, with_keyword
from trueup.edits.draft import Draft, assigned, is_place, last_name, literal
from trueup.edits.python_source import Source, Statement
from trueup.edits.values import Site, put, sites_with
from trueup.schema.finding import Finding

SDPA = "torch.nn.functional.scaled_dot_product_attention"
SWITCHES = {"flash": "enable_flash_sdp", "mem_efficient": "enable_mem_efficient_sdp", "math": "enable_math_sdp"}
"""Name of a switch in the record → its setter."""
LOADING = ("from_pretrained", "from_config", "_from_config")
BATCH = frozenset({"input_ids", "inputs_embeds", "labels", "attention_mask", "position_ids"})
"""Arguments by which the call of a language model is known."""
DTYPES = re.compile(r"query\.dtype: (\S+) key\.dtype: (\S+) and value\.dtype: (\S+)")
HALF = re.compile(r"half|bfloat16", re.IGNORECASE)
VALUE_FIRST = (2, 0, 1)
"""Places of value, query and key in a call of attention."""
IN_TEXT = re.compile(r"(\"attn_implementation\"\s*:\s*\")(?!sdpa\")(\w+)(\")")


def disable_kv_cache(draft: Draft) -> bool:
    """`use_cache=True` where it stands, else in the configuration of the one model, else behind its construction."""
    sources = draft.job.sources()
    asked = sites_with(sources, ("use_cache",), lambda value: value is True)
    if put(draft, [site for site in asked if _is_of_training(site)], "False"):
        return True
    built = _built(draft)
    if built is None:
        return False
    source, line = built
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    configuration = _configuration(source, line)
    if configuration is not None:
        draft.of(source).change(configuration, lambda call: with_keyword(call, "use_cache", "False"))
        return True
    target = assigned(line)
    if target is not None:
        draft.of(source).insert_after(line, f"{source.code(target[0])}.config.use_cache = False")
        return True
    return _at_loading(draft, source, line, "use_cache", "False", "from_pretrained")


def leak_free_packing(draft: Draft) -> bool:
    """No mask of ones beside position ids that tell the documents apart, and no cache."""
    masks = [
        (source, element)
        for source in draft.job.sources()
        for element in source.nodes(cst.DictElement)
        if literal(element.key) == "attention_mask" and _is_ones(element.value)
    ]
    if len(masks) > 1:
        return False
    cacheless = sites_with(draft.job.sources(), ("use_cache",), lambda value: value is False)
    if not masks and (cacheless or _other_ones(draft)):
        return False  # no cache is left to switch off, or a mask is made another way
    for source, element in masks:
        owner = source.parent(element)
        if not isinstance(owner, cst.Dict):
            return False
        draft.of(source).change(owner, lambda node: _without_key(node, "attention_mask"))
    return (disable_kv_cache(draft) and not masks) or bool(masks)


def _other_ones(draft: Draft) -> bool:
    """Whether a mask of ones is a keyword or put under its name: `batch["attention_mask"] = ones_like(ids)`."""
    for source in draft.job.sources():
        for given in source.nodes(cst.Arg):
            if given.keyword and given.keyword.value == "attention_mask" and _is_ones(given.value):
                return True
        for assignment in source.nodes(cst.Assign):
            if _is_ones(assignment.value) and any(_names_mask(target.target) for target in assignment.targets):
                return True
    return False


def _names_mask(target: cst.CSTNode) -> bool:
    if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
        return False
    index = target.slice[0].slice
    return isinstance(index, cst.Index) and literal(index.value) == "attention_mask"


def request_sdpa(draft: Draft) -> bool:
    """The one place that names another implementation, else the call that loads the model."""
    sources = draft.job.sources()
    names = ("attn_implementation", "_attn_implementation")
    found = sites_with(sources, names, lambda value: isinstance(value, str) and value != "sdpa")
    if found:
        return len({literal(site.value) for site in found}) == 1 and put(draft, found, '"sdpa"')
    texts = [
        (source, node)
        for source in sources
        for node in source.nodes(cst.SimpleString)
        if len(IN_TEXT.findall(node.value)) == 1
    ]
    if texts:
        source, node = texts[0]
        draft.of(source).change(node, lambda text: text.with_changes(value=IN_TEXT.sub(r"\1sdpa\3", text.value)))
        return len(texts) == 1
    built = _built(draft)
    return built is not None and _at_loading(draft, *built, "attn_implementation", '"sdpa"', *LOADING)


def restore_switches(draft: Draft) -> bool:
    """The lines that switch kernels off switch them on; lines of others are undone behind the imports."""
    off = [name for name in SWITCHES if any(_is_switch(each.what, name) for each in draft.finding.evidence)]
    left = set(off)
    for source in draft.job.sources():
        for name in off:
            for call in source.calls_of(f"torch.backends.cuda.{SWITCHES[name]}"):
                if call.args and literal(call.args[0].value) is False:
                    draft.of(source).change(call.args[0].value, lambda node: cst.Name("True"))
                    left.discard(name)
    script = draft.job.script()
    for name in off:
        if name in left:
            if script is None:
                return False
            draft.set_line(script, f"torch.backends.cuda.{SWITCHES[name]}(True)")
    return bool(off)


def no_output_attentions(draft: Draft) -> bool:
    return put(draft, sites_with(draft.job.sources(), ("output_attentions",), lambda value: value is True), "False")


def cast_attention_input(draft: Draft) -> bool:
    """Query, key and value in the half type that one of them has, at the one call of the job."""
    calls = [(source, call) for source in draft.job.sources() for call in source.calls_of(SDPA)]
    if len(calls) != 1:
        return False
    source, call = calls[0]
    given = [arg.value for arg in call.args[:3] if arg.keyword is None and not arg.star]
    if len(given) != 3 or not all(is_place(each) for each in given):
        return False
    dtypes = _dtypes_told(draft.finding)
    model = next((place for place in VALUE_FIRST if HALF.search(dtypes[place])), VALUE_FIRST[0])
    dtype = f"{source.code(given[model])}.dtype"
    for place, each in enumerate(given):
        if place != model and dtypes[place] != dtypes[model]:
            draft.of(source).put(each, cst.parse_expression(f"{source.code(each)}.to({dtype})"))
    return True


def _dtypes_told(finding: Finding) -> tuple[str, ...]:
    """Dtypes of query, key and value in the words of the exception; those of a rotary embedding where it is mute."""
    for evidence in finding.evidence:
        told = DTYPES.search(str(evidence.value))
        if told is not None:
            return told.groups()
    return ("float", "float", "half")


def _is_of_training(site: Site) -> bool:
    """Whether a setting is one of a configuration, of loading a model, or of a call that trains it."""
    owner = next(
        node for node in site.source.enclosing(site.value) if isinstance(node, (cst.Call, cst.Dict, cst.Assign))
    )
    if isinstance(owner, cst.Assign):
        target = owner.targets[0].target
        return isinstance(target, cst.Attribute) and last_name(target.value).endswith("config")
    if not isinstance(owner, cst.Call):
        return False
    name = last_name(owner)
    if name.endswith("Config") or name in LOADING:
        return True
    return any(arg.keyword is not None and arg.keyword.value in BATCH for arg in owner.args)


def _built(draft: Draft) -> tuple[Source, Statement] | None:
    """The one line of the job at which a Hugging Face model was made; None when there are several."""
    places = draft.job.applied("config")
    return places[0][1:] if len(places) == 1 else None


def _configuration(source: Source, line: Statement) -> cst.Call | None:
    """The call that makes the configuration of the model that is made in `line`, within it or in front of it."""
    lines = source.lines(line)
    inside = [call for call in source.calls if lines[0] <= source.lines(call)[0] and source.lines(call)[1] <= lines[1]]
    made = [call for call in inside if _is_configuration(source, call)]
    if not made:
        names = {arg.value.value for call in inside for arg in call.args[:1] if isinstance(arg.value, cst.Name)}
        for statement in source.statements:
            pair = assigned(statement)
            if pair is None or not isinstance(pair[0], cst.Name) or pair[0].value not in names:
                continue
            if not isinstance(pair[1], cst.Call) or not _is_configuration(source, pair[1]):
                continue
            made.append(pair[1])
    if len(made) != 1 or is_open(made[0]) or argument(made[0], "use_cache") is not None:
        return None
    return made[0]


def _is_configuration(source: Source, call: cst.Call) -> bool:
    return any(name.startswith("transformers.") and name.endswith("Config") for name in source.names(call.func))


def _at_loading(draft: Draft, source: Source, line: Statement, keyword: str, value: str, *methods: str) -> bool:
    """Add a keyword to the call of one of `methods` in `line`."""
    lines = source.lines(line)
    calls = [
        call
        for call in source.calls
        if lines[0] <= source.lines(call)[0] <= lines[1]
        and isinstance(call.func, cst.Attribute)
        and call.func.attr.value in methods
        and "Config" not in last_name(call.func.value)
        and not last_name(call.func.value).endswith("Tokenizer")
    ]
    if len(calls) != 1 or is_open(calls[0]):
        return False
    draft.of(source).change(calls[0], lambda call: with_keyword(call, keyword, value))
    return True


def _is_ones(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        return isinstance(node.left, cst.List) and [literal(each.value) for each in node.left.elements] == [1]
    return isinstance(node, cst.Call) and last_name(node) in ("ones", "ones_like")


def _is_switch(what: str, name: str) -> bool:
    return what.endswith(f"SDPA switch {name}")


def _without_key(node: cst.Dict, key: str) -> cst.Dict:
    elements = list(node.elements)
    index = next(i for i, each in enumerate(elements) if isinstance(each, cst.DictElement) and literal(each.key) == key)
    gone = elements.pop(index)
    if index and index == len(elements):
        elements[-1] = elements[-1].with_changes(comma=gone.comma)
    return node.with_changes(elements=elements)
