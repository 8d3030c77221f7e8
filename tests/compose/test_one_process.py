"""Plans in one process: Hugging Face models, every second block, the meta device, autocast, an empty plan."""

import copy

import pytest
import torch
import torch.distributed as dist
from small import Model, batches, train

import trueup

COMPILE = trueup.CompilePolicy(backend="aot_eager")


def test_a_hugging_face_model():
    """Its layers have checkpoints of their own, which are off, and a cache, which is refused."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=10,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    plan = trueup.Plan(compile=COMPILE, checkpointing=trueup.Checkpointing())
    with pytest.raises(trueup.ComposeError, match="use_cache = False"):
        trueup.compose(model, plan)
    model.config.use_cache = False
    plain = copy.deepcopy(model)
    done = trueup.compose(model, plan)
    for length in (6, 7, 9):
        tokens = torch.arange(2 * length).view(2, length) % 32
        losses = [each(input_ids=tokens, labels=tokens).loss for each in (done.model, plain)]
        for loss in losses:
            loss.backward()
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-4)
    gradients = [dict(each.named_parameters())["model.embed_tokens.weight"].grad for each in (done.model, plain)]
    torch.testing.assert_close(*gradients)
    coverage = done.check().require()
    assert (coverage.blocks_compiled, coverage.checkpointed) == (10, 10)
    assert list(done.model.state_dict()) == list(plain.state_dict())


def test_every_second_block_is_checkpointed():
    done = trueup.compose(Model(blocks=5), trueup.Plan(checkpointing=trueup.Checkpointing(every=2)))
    train(done.model, batches([2]))
    assert done.check().require().checkpointed == 3


def test_autocast_is_left_after_the_forward_and_after_an_error():
    done = trueup.compose(Model(), trueup.Plan(precision="bf16"))
    assert done.model(torch.randn(2, 8)).dtype == torch.bfloat16
    with pytest.raises(RuntimeError):
        done.model(torch.randn(2, 3))
    assert not torch.is_autocast_enabled("cpu")
    assert done.check().require().low_precision


def test_a_model_on_the_meta_device_is_sharded_and_then_materialised(tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        with torch.device("meta"):
            model = Model()
        done = trueup.compose(model, trueup.Plan(sharding="fsdp2", compile=COMPILE))
        done.model.to_empty(device="cpu")
        for module in done.model.modules():
            if isinstance(module, torch.nn.Linear):
                module.reset_parameters()
        losses = train(done.model, batches([4, 4]))
        assert all(loss == loss for loss in losses)
        assert done.check().require().blocks_compiled == 3
    finally:
        dist.destroy_process_group()


def test_an_empty_plan_changes_nothing():
    model = Model()
    done = trueup.compose(model, trueup.Plan())
    assert done.model is model
    assert str(done) == "nothing was asked for"
    train(done.model, batches([2]))
    assert done.check().complete


def test_the_model_inside_of_a_wrapper_is_no_training_of_it():
    """The first step that is forgotten after composing: to call what was composed."""
    model = Model()
    done = trueup.compose(model, trueup.Plan(compile=COMPILE))
    assert not done.check().complete
    assert "train that one" in done.check().problems[0]
    with pytest.raises(trueup.NotAsPlanned):
        done.check().require()
