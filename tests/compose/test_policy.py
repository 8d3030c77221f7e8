"""What happens to a block that is compiled again and again: for real, with blocks that share their compiled code."""

import copy
import warnings

import pytest
import torch
from small import BrokenBlock, IndexedBlock, Model, batches, train

import trueup

SHAPES = (2, 3, 4, 5, 6)


def composed(model, **policy):
    return trueup.compose(model, trueup.Plan(compile=trueup.CompilePolicy(backend="aot_eager", **policy)))


def test_blocks_that_are_alike_share_one_variant():
    done = composed(Model(blocks=4))
    plain = copy.deepcopy(done.model)
    data = batches([2, 2, 2])
    assert train(done.model, data) == pytest.approx(train(plain, data))
    assert [runs.variants for runs in done.runs.values()] == [next(iter(done.runs.values())).variants] * 4
    assert [runs.recompiled for runs in done.runs.values()] == [0] * 4
    assert done.check().require().blocks_compiled == 4


def test_one_variant_for_each_index_is_a_recompile_of_no_block():
    """Twelve variants of one function, where Dynamo gives up at eight: no block has more than its own."""
    done = composed(Model(IndexedBlock, blocks=12), recompiles_per_block=0, beyond="raise")
    train(done.model, batches([2, 2]))
    coverage = done.check()
    assert coverage.complete, coverage.problems
    assert coverage.blocks_compiled == 12
    assert sum(coverage.recompiles.values()) == 11
    assert any("index" in reason for reason in coverage.recompiles)


def test_warns_once_for_each_block_and_goes_on_compiled():
    done = composed(Model(), dynamic=False, recompiles_per_block=2, beyond="warn")
    with pytest.warns(trueup.RecompileWarning, match=r"block layers\.0 \(Block\).*size mismatch") as told:
        train(done.model, batches(SHAPES[:4]))
    assert len([w for w in told if w.category is trueup.RecompileWarning]) == 3
    assert [runs.recompiled for runs in done.runs.values()] == [3, 3, 3]
    assert done.check().blocks_compiled == 3


def test_raises_beyond_the_limit_and_not_before():
    done = composed(Model(), dynamic=False, recompiles_per_block=2, beyond="raise")
    train(done.model, batches(SHAPES[:3]))
    with pytest.raises(trueup.RecompilesBeyondLimit, match=r"layers\.0.*recompiles_per_block"):
        train(done.model, batches(SHAPES[3:4]))


def test_eager_is_for_that_block_only():
    """One block gets inputs of varying length, the others of one: it alone stops to be compiled."""
    model = Model(blocks=3)
    plain = copy.deepcopy(model)
    done = composed(model, dynamic=False, recompiles_per_block=2, beyond="eager")
    same = batches([4])[0]

    def call_each():
        for x in batches([2, 3, 5, 6, 7, 8]):
            for layer, like in zip(model.layers, plain.layers, strict=True):
                value = x if layer is model.layers[1] else same
                torch.testing.assert_close(layer(value), like(value))

    with pytest.warns(trueup.RecompileWarning) as told:
        call_each()
    done.forwards = 1  # the blocks were called without the model around them
    coverage = done.check()
    assert len(told) == 1
    assert coverage.eager == ("layers.1",)
    assert coverage.blocks_compiled == 2
    assert done.runs["layers.1"].recompiled == 3
    assert any("layers.1" in problem for problem in coverage.problems)


def test_a_shape_that_is_new_to_all_costs_each_block_one_recompile():
    """Without sharing, blocks that go eager one after the other would each have the new shapes compiled once more."""
    done = composed(Model(blocks=3), dynamic=False, recompiles_per_block=1, beyond="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", trueup.RecompileWarning)
        train(done.model, batches(SHAPES))
    compiled = set().union(*(runs.variants for runs in done.runs.values()))
    assert len(compiled) == 3
    assert done.check().eager == ("layers.0", "layers.1", "layers.2")


def test_a_checkpointed_block_is_computed_again_as_it_ran():
    """The limit is exceeded in a forward pass: its backward pass still computes the block as it ran."""
    model = Model(blocks=2)
    plain = copy.deepcopy(model)
    policy = trueup.CompilePolicy(backend="aot_eager", dynamic=False, recompiles_per_block=1, beyond="eager")
    done = trueup.compose(model, trueup.Plan(compile=policy))
    data = batches(SHAPES)
    losses = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", trueup.RecompileWarning)
        for x in data:
            value = torch.utils.checkpoint.checkpoint(done.model, x.requires_grad_(), use_reentrant=False)
            loss = value.pow(2).mean()
            loss.backward()
            losses.append(loss.item())
    assert losses == pytest.approx([plain(x).pow(2).mean().item() for x in data])
    assert len(done.check().eager) == 2


def test_breaks_are_counted_for_all_blocks_of_the_class():
    done = composed(Model(BrokenBlock))
    train(done.model, batches([2, 2]))
    coverage = done.check()
    assert coverage.blocks_compiled == 0
    assert any("small.py" in reason for reason in coverage.breaks)
    with pytest.raises(trueup.NotAsPlanned, match="graph break"):
        coverage.require()


def test_fullgraph_refuses_a_break():
    done = composed(Model(BrokenBlock), fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        train(done.model, batches([2]))


def test_dynamo_off_is_noticed():
    done = composed(Model())
    with torch.compiler.set_stance("force_eager"):
        train(done.model, batches([2]))
    assert done.check().blocks_compiled == 0
    assert "3 blocks ran no compiled graph in their last call" in done.check().problems[0]


def test_options_of_inductor_reach_it():
    done = trueup.compose(
        Model(blocks=2), trueup.Plan(compile=trueup.CompilePolicy(options={"max_autotune": False}, fullgraph=True))
    )
    train(done.model, batches([2, 2]))
    assert done.check().require().blocks_compiled == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"beyond": "panic"}, "beyond"),
        ({"recompiles_per_block": -1}, "recompiles_per_block"),
        ({"mode": "max-autotune", "backend": "eager"}, "backend='inductor'"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(options, named):
    with pytest.raises(ValueError, match=named):
        trueup.CompilePolicy(**options)


def test_an_unknown_backend_is_named():
    with pytest.raises(trueup.ComposeError, match="inductr"):
        trueup.compose(Model(), trueup.Plan(compile=trueup.CompilePolicy(backend="inductr")))
