"""The leakage probe as an API: what leaks is found, what does not gives exactly 0.0, and nothing of it is left."""

import copy
import random

import numpy
import pytest
import torch
from own_model import Own, block_mask, packed_batch
from packed_models import llama
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask

from trueup.attention import leakage


def sound(found):
    return (found.verdict, found.change, found.noise) == ("none", 0.0, 0.0)


@pytest.mark.parametrize(
    ("given", "leaks"),
    [
        ({"use_cache": False}, False),
        ({}, True),  # a cache by default
        ({"use_cache": False, "attention_mask": "ones"}, True),
        ({"use_cache": False, "attention_mask": "block"}, False),
        ({"use_cache": True, "attention_mask": "block"}, False),
    ],
)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_transformers_leaks_where_a_cache_or_a_plain_mask_is_given(implementation, given, leaks):
    batch = packed_batch()
    given = dict(given)
    if given.get("attention_mask") == "ones":
        given["attention_mask"] = torch.ones_like(batch["input_ids"])
    elif given.get("attention_mask") == "block":
        allowed = block_mask(batch["position_ids"])
        given["attention_mask"] = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    found = leakage(llama(implementation), batch | given)
    assert (found.verdict == "leak") is leaks, found
    assert leaks or sound(found)
    assert (found.documents, found.rows, found.positions, found.seen_in) == (12, 3, 40, "position_ids")
    if leaks:
        assert found.change > 0.01
        assert (found.source, found.target, found.other_rows) == (1, 2, 0.0)


def test_padding_beside_packed_documents():
    batch = packed_batch(lengths=(9, 14, 7))
    padding = torch.zeros(3, 6, dtype=torch.long)
    padded = {name: torch.cat([value, padding], 1) for name, value in batch.items()}
    assert sound(leakage(llama(), padded | {"use_cache": False}))
    mask = torch.cat([torch.ones_like(batch["input_ids"]), padding], 1)
    found = leakage(llama(), padded | {"use_cache": False, "attention_mask": mask})
    assert (found.verdict, found.documents) == ("leak", 9)


def test_one_document_a_row_is_not_packed():
    batch = packed_batch(lengths=(40,))
    assert leakage(llama(), batch).verdict == "not packed"
    padded = {name: torch.cat([value, torch.zeros(3, 8, dtype=torch.long)], 1) for name, value in batch.items()}
    assert leakage(llama(), padded).verdict == "not packed"
    assert leakage(llama(), {"input_ids": batch["input_ids"]}).verdict == "not packed"


def varlen_attention(module, query, key, value, attention_mask, cu_seq_lens_q=None, **options):
    """As flash-attn's varlen functions: each sequence of the only row by itself, or all as one where none is told."""
    key, value = (each.repeat_interleave(query.shape[1] // key.shape[1], 1) for each in (key, value))
    ends = [query.shape[2]] if cu_seq_lens_q is None else cu_seq_lens_q[1:].tolist()
    parts, start = [], 0
    for end in ends:
        q, k, v = (each[:, :, start:end] for each in (query, key, value))
        parts.append(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        start = end
    return torch.cat(parts, 2).transpose(1, 2), None


@pytest.mark.parametrize(("told", "verdict"), [("cu_seq_lens_q", "none"), ("cu_seqlens_other", "leak")])
def test_boundaries_of_varlen_kernels(told, verdict):
    AttentionInterface.register("varlen_by_torch", varlen_attention)
    AttentionMaskInterface.register("varlen_by_torch", flash_attention_mask)
    batch = packed_batch(rows=1)
    ends = torch.tensor([0, 9, 23, 30, 40], dtype=torch.int32)
    found = leakage(llama("varlen_by_torch"), batch | {told: ends, "max_length_q": 14, "use_cache": False})
    assert found.verdict == verdict, found
    alone = {"input_ids": batch["input_ids"], "cu_seq_lens_q": ends, "max_length_q": 14}
    assert leakage(llama("varlen_by_torch"), alone | {"use_cache": False}).seen_in == "cu_seq_lens_q"


def test_own_models():
    batch = packed_batch()
    tokens, allowed = batch["input_ids"], block_mask(batch["position_ids"])
    assert leakage(Own(), {"tokens": tokens, "position_ids": batch["position_ids"]}).verdict == "leak"
    found = leakage(Own(), {"tokens": tokens, "mask": allowed})
    assert sound(found)
    assert found.seen_in == "mask"
    assert leakage(Own(), (tokens, allowed)).seen_in == "mask"
    assert leakage(Own(), tokens).verdict == "not packed"
    one_token_late = allowed.clone()
    one_token_late[:, :, 9] |= allowed[:, :, 8]  # the first token of document 2 looks at document 1
    found = leakage(Own(), {"tokens": tokens, "mask": one_token_late, "position_ids": batch["position_ids"]})
    assert (found.verdict, found.target) == ("leak", 2)


def test_documents_that_end_at_a_token():
    tokens = packed_batch()["input_ids"].clone()
    tokens[:, [8, 22, 29]] = 2
    assert leakage(Own(), tokens, eos=2).verdict == "leak"
    found = leakage(Own(eos=2), tokens, eos=2)
    assert sound(found)
    assert (found.documents, found.seen_in) == (12, "eos token")
    begun = tokens.roll(1, 1)
    begun[:, 0] = 2
    assert leakage(Own(), begun, bos=2).documents == 12


def test_a_leak_between_later_documents_only():
    batch = packed_batch()
    allowed = block_mask(batch["position_ids"])
    allowed[:, :, 30:, 23:30] = True
    found = leakage(Own(), {"tokens": batch["input_ids"], "mask": allowed, "position_ids": batch["position_ids"]})
    assert (found.verdict, found.source, found.target) == ("leak", 3, 4)


def test_what_mixes_rows_as_well_is_told_from_attention():
    batch = packed_batch()
    given = {"tokens": batch["input_ids"], "mask": block_mask(batch["position_ids"])}
    found = leakage(Own(batch_norm=True), given)
    assert found.verdict == "leak"
    assert found.other_rows > 0.1 * found.change


def test_without_logits_the_last_block_is_compared():
    batch = packed_batch()
    found = leakage(Own(returns="loss"), {"tokens": batch["input_ids"], "position_ids": batch["position_ids"]})
    assert (found.verdict, found.measured_at) == ("leak", "output of Block")
    assert leakage(nn.Linear(2, 2), torch.zeros(3, 2)).verdict == "not probed"


def test_dtypes():
    batch = packed_batch()
    for dtype in (torch.float64, torch.bfloat16):
        assert sound(leakage(llama().to(dtype), batch | {"use_cache": False}))
        assert leakage(llama().to(dtype), batch).verdict == "leak"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert sound(leakage(llama(), batch | {"use_cache": False}))
        assert leakage(llama(), batch).verdict == "leak"


def test_low_precision_is_known_behind_an_output_in_float32():
    """accelerate hands out what autocast computes as float32: rounding is that of bf16 all the same."""
    model = Own().to(torch.bfloat16)
    model.register_forward_hook(lambda module, args, output: output.float())
    found = leakage(model, {"tokens": packed_batch()["input_ids"], "position_ids": packed_batch()["position_ids"]})
    assert (found.verdict, found.dtype) == ("leak", "bfloat16")


def step(model, batch):
    """One training step; the gradient of every parameter."""
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(batch["input_ids"], None, batch["position_ids"]).float().logsumexp(-1).mean().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("within_autocast", [False, True])
def test_nothing_is_left(within_autocast):
    batch = packed_batch()
    model = Own(dropout=0.3, batch_norm=True)
    seen = []

    def hook(module, args, output):
        seen.append(output.shape)

    model.head.register_forward_hook(hook)
    twin = copy.deepcopy(model)
    twin.head._forward_hooks.clear()
    random.seed(3)
    numpy.random.seed(3)
    torch.manual_seed(3)
    expected = step(twin, batch), torch.rand(2), random.random(), numpy.random.rand()
    random.seed(3)
    numpy.random.seed(3)
    torch.manual_seed(3)
    before = {name: buffer._version for name, buffer in model.named_buffers()}
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=within_autocast):
        found = leakage(model, (batch["input_ids"], None, batch["position_ids"]))
        assert found.verdict == "leak"
        assert not seen
        assert [(block.calls, block.seen) for block in model.blocks] == [(0, [])] * 2
        assert all(parameter.grad is None for parameter in model.parameters())
        assert before.keys() == dict(model.named_buffers()).keys()
        got = step(model, batch), torch.rand(2), random.random(), numpy.random.rand()
    for one, other in zip(got[0], expected[0], strict=True):
        assert torch.equal(one, other)
    assert torch.equal(got[1], expected[1])
    assert got[2:] == expected[2:]
    assert torch.equal(model.statistics.running_mean, twin.statistics.running_mean)
    assert int(model.statistics.num_batches_tracked) == 1


def test_a_cache_of_the_callers_is_not_filled():
    from transformers import DynamicCache

    cache = DynamicCache()
    assert leakage(llama(), packed_batch() | {"past_key_values": cache}).verdict == "leak"
    assert cache.get_seq_length() == 0


def test_the_changed_tokens_hold_no_special_ones():
    from trueup.instrument import inside

    inside.make_importable()
    from trueup_instrument.probes.leakage import changes

    tokens = packed_batch()["input_ids"].clone()
    tokens[:, [8, 22, 29]] = 2
    tokens[:, [3, 4, 5]] = 99  # as the places of an image
    numbers = torch.tensor([0] * 9 + [1] * 14 + [2] * 7 + [3] * 10).expand(3, -1)
    made = changes(numbers, tokens, {99})
    assert [each.sources for each in made] == [{0: 0, 1: 0, 2: 0}, {0: 2}]
    for each in made:
        assert torch.equal(each.tokens == 2, tokens == 2)
        assert torch.equal(each.tokens == 99, tokens == 99)
        assert set(each.tokens.unique().tolist()) <= set(tokens.unique().tolist())
    assert bool((made[0].tokens != tokens)[:, :3].all())
    assert not bool((made[0].tokens != tokens)[:, 9:].any())
