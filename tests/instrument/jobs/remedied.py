"""Small jobs with a fault of one layer each, that tell what they compute and what their compiler did."""

import copy
import math
import pickle

import models
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

STEPS = 5
LENGTH, WIDTH = 6, 16


class Scaled:
    """A scale of its own for each block, as of processors of diffusion models."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return functional.scaled_dot_product_attention(heads, heads, heads, scale=self.scale).transpose(1, 2).flatten(2)


class Named:
    """A text of its own for each block: no number that a graph could take as an input."""

    def __init__(self, name):
        self.name = name

    def __call__(self, x):
        return x * (1 + len(self.name) / 50)


class Block(nn.Module):
    def __init__(self, process):
        super().__init__()
        self.process = process
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.linear(self.process(x))


def trained(model, steps=STEPS, before=lambda step: None):
    """Losses and gradients of each step, the number of graphs and of recompilation limits that were reached."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses, gradients = [], []
    for step in range(steps):
        before(step)
        loss = model(torch.randn(2, LENGTH, WIDTH)).square().mean()
        loss.backward()
        gradients.append([None if p.grad is None else p.grad.norm().item() for p in model.parameters()])
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {"losses": losses, "gradients": gradients, **compiler()}


def compiler():
    counters = torch._dynamo.utils.counters
    return {"graphs": counters["stats"]["unique_graphs"], "unimplemented": sum(counters["unimplemented"].values())}


def per_layer(kind):
    torch._dynamo.config.recompile_limit = 2
    values = {"scale": Scaled, "name": Named}
    made = [values[kind](0.1 * (i + 1) if kind == "scale" else "ab" * (i + 1)) for i in range(5)]
    model = nn.Sequential(*(Block(process) for process in made))
    for block in model:
        block.compile(backend="aot_eager")
    return trained(model)


def equal_layers():
    """Nothing differs between the blocks."""
    model = nn.Sequential(*(Block(torch.tanh) for _ in range(4)))
    for block in model:
        block.compile(backend="aot_eager")
    return trained(model)


def frozen_at_random():
    torch._dynamo.config.recompile_limit = 64
    model = nn.Sequential(*(Block(torch.tanh) for _ in range(3)))
    for block in model:
        block.compile(backend="aot_eager")
    chosen = torch.Generator().manual_seed(3)

    def freeze(step):
        for parameter in list(model.parameters())[1:]:
            parameter.requires_grad_(bool(torch.rand((), generator=chosen) < 0.5))

    told = trained(model, 8, freeze)
    return {**told, "trainable": [parameter.requires_grad for parameter in model.parameters()]}


def inputs_of_either_kind():
    model = torch.compile(Block(torch.tanh), backend="aot_eager")
    outputs, gradients = [], []
    for step in range(6):
        x = torch.randn(2, LENGTH, WIDTH, requires_grad=step % 2 == 0)
        loss = model(x).square().sum()
        loss.backward()
        outputs.append(loss.item())
        gradients.append(None if x.grad is None else x.grad.norm().item())
    return {"losses": outputs, "gradients": gradients, **compiler()}


def always_frozen():
    """Parameters that are never trained stay out of it."""
    model = nn.Sequential(*(Block(torch.tanh) for _ in range(3)))
    model[0].requires_grad_(False)
    for block in model:
        block.compile(backend="aot_eager")
    return trained(model)


def reference(query, key, value, mask=None, causal=False):
    """Attention by hand, in float64."""
    query, key, value = (each.double() for each in (query, key, value))
    groups = query.size(-3) // key.size(-3) if query.dim() > 2 else 1
    if groups > 1:
        key, value = (each.repeat_interleave(groups, -3) for each in (key, value))
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ value


def error(query, key, value, mask=None, causal=False, **options):
    """(largest difference from attention by hand, whether the math kernel ran, whether a mask was given to it)"""
    with torch.profiler.profile(record_shapes=True) as profile:
        found = functional.scaled_dot_product_attention(query, key, value, mask, 0.0, causal, **options)
    expected = reference(query, key, value, mask, causal)
    assert found.shape == expected.shape
    events = profile.events()
    math_kernel = any("attention_math" in event.name for event in events)
    calls = [event for event in events if event.name == "aten::scaled_dot_product_attention"]
    return (found - expected).abs().max().item(), math_kernel, bool(calls[0].input_shapes[3])


def attention_shapes():
    q, k, v = torch.randn(3, 2, 4, 8, 16).unbind()
    mask = torch.rand(8, 8) < 0.7
    mask[:, 0] = True
    folded = mask.expand(8, 8, 8).clone()
    folded[3] = folded[3].tril()
    folded[3, :, 0] = True
    strided = [each.transpose(-1, -2).contiguous().transpose(-1, -2) for each in (q, k, v)]
    flat = [each.flatten(0, 1) for each in (q, k, v)]
    by_head = mask.expand(4, 8, 8).clone()
    by_head[2] = torch.ones(8, 8, dtype=torch.bool).tril()
    return {
        "three dimensions": error(*flat),
        "three dimensions, causal": error(*flat, causal=True),
        "three dimensions, a mask for each": error(*flat, mask=folded),
        "three dimensions, one mask": error(*flat, mask=mask),
        "a mask for each head": error(q, k, v, mask=by_head),
        "rows in pieces": error(*strided),
        "two dimensions": error(q[0, 0], k[0, 0], v[0, 0]),
        "smaller values": error(q, k, v[..., :8]),
        "smaller values, three dimensions": error(*flat[:2], flat[2][..., :8], causal=True),
        "larger values": error(q[..., :8], k[..., :8], v),
        "larger values, a mask": error(q[..., :8], k[..., :8], v, mask=mask),
        "as it should be": error(q, k, v, mask=mask),
    }


def compiled_groups():
    """Grouped heads with a mask in a graph, where nobody can ask which kernel would run."""
    q, (k, v) = torch.randn(2, 8, 6, 16), torch.randn(2, 2, 2, 6, 16).unbind()
    mask = torch.ones(6, 6, dtype=torch.bool).tril()

    def attend(q, k, v, mask):
        return functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)

    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    return (compiled(q, k, v, mask) - reference(q, k, v, mask)).abs().max().item()


def plain_masks():
    """Masks of many kinds, one of them changed between two calls."""
    q, k, v = torch.randn(3, 2, 4, 8, 16).unbind()
    causal = torch.ones(8, 8, dtype=torch.bool).tril()
    low = torch.zeros(8, 8).masked_fill(~causal, torch.finfo(torch.float32).min)
    mild = torch.zeros(8, 8).masked_fill(~causal, -2.0)
    padded = torch.ones(2, 1, 1, 8, dtype=torch.bool)
    padded[1, ..., 5:] = False
    changing = torch.ones(8, 8, dtype=torch.bool)
    told = {
        "all ones": error(q, k, v, torch.ones(2, 1, 8, 8, dtype=torch.bool)),
        "zeros": error(q, k, v, torch.zeros(8, 8)),
        "causal": error(q, k, v, causal),
        "causal, as low as it goes": error(q, k, v, low),
        "causal, a penalty": error(q, k, v, mild),
        "padding": error(q, k, v, padded),
        "fewer keys": error(q, k[..., :6, :], v[..., :6, :], causal[:, :6]),
        "before it changes": error(q, k, v, changing),
    }
    changing[:, 4:] = False
    return {**told, "after it changed": error(q, k, v, changing)}


def copies():
    model = nn.Sequential(*(models.Block() for _ in range(3)))
    before = copy.deepcopy(model)
    for block in model:
        block.compile(backend="aot_eager")
    x = torch.randn(2, 4, 8)
    expected = model(x)
    found = {"copied": copy.deepcopy(model), "pickled": pickle.loads(pickle.dumps(model)), "before": before}
    return {
        name: {
            "compiled": [block._compiled_call_impl is not None for block in each],
            "difference": (each(x) - expected).abs().max().item(),
            "state": sorted(each[0].__dict__) == sorted(set(model[0].__dict__) - {"_compiled_call_impl"} | extra(each)),
        }
        for name, each in found.items()
    }


def extra(model):
    return {"_compiled_call_impl"} & set(model[0].__dict__)


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        inner = self.dropout(self.up(x).relu())
        torch._dynamo.graph_break()
        return x + self.down(inner)


class Looping(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Broken() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def checkpoints_with_breaks(whole):
    """compile(checkpoint(block)), or the compiled model checkpoints its blocks."""
    if whole:
        model = torch.compile(Looping(), backend="aot_eager")
    else:
        wrapped = [torch.compile(checkpoint_wrapper(Broken()), backend="aot_eager") for _ in range(3)]
        model = nn.Sequential(*wrapped)
    return trained(model)


def lengths(static, wrapped=False):
    model = models.Model(blocks=2)
    options = {"backend": "aot_eager", "dynamic": False if static else None}
    if wrapped:
        model = torch.compile(model, **options)
    else:
        model.compile(**options)
    losses = []
    for step in range(6):
        loss = models.loss_of(model, torch.randint(0, 16, (2 + step % 3, 9 + step)))
        loss.backward()
        losses.append(loss.item())
    return {"losses": losses, **compiler()}


def padded_rows(mask, wrapped=False):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    if wrapped:
        model = torch.compile(model, backend="aot_eager", dynamic=False)
    else:
        model.compile(backend="aot_eager", dynamic=False)
    losses, rows = [], []
    for step in range(4):
        ids = torch.randint(0, 32, (2, 7 + 3 * step))
        given = {"attention_mask": torch.ones_like(ids)} if mask else {}
        if mask:
            given["attention_mask"][1, -2:] = 0
        labels = ids.masked_fill(given.get("attention_mask", torch.ones_like(ids)) == 0, -100)
        result = model(input_ids=ids, labels=labels, **given)
        result.loss.backward()
        losses.append(result.loss.item())
        rows.append(result.logits.shape[1])
    return {"losses": losses, "rows": rows, **compiler()}


def flash_layers(layers=10):
    """Flash attention of a model, whose kernel is written with scaled_dot_product_attention."""
    import transformers.modeling_flash_attention_utils as flash
    from transformers import AttentionInterface, AttentionMaskInterface, LlamaConfig, LlamaForCausalLM
    from transformers.integrations.flash_attention import flash_attention_forward

    def kernel(q, k, v, causal=True, softmax_scale=None, **options):
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=softmax_scale).transpose(1, 2)

    def arguments(query_length, key_length, is_causal, dropout=0.0, softmax_scale=None, **others):
        return {"causal": is_causal, "softmax_scale": softmax_scale}

    functions = (kernel, None, None, None, None), (arguments, None)
    flash.lazy_import_flash_attention = lambda implementation: functions
    AttentionInterface.register("written", flash_attention_forward)
    AttentionMaskInterface.register("written", lambda *args, **options: None)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        use_cache=False,
        attn_implementation="written",
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    for layer in model.model.layers:
        layer.compile(backend="aot_eager")
    losses = []
    for _ in range(3):
        ids = torch.randint(0, 32, (2, 8))
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        losses.append(loss.item())
    return {"losses": losses, **compiler()}


def frozen_base(peft):
    """Reentrant checkpoints of a frozen base, with adapters."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        use_cache=False,
    )
    model = trainable = LlamaForCausalLM(config)
    if peft:
        trainable = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"]))
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.disable_input_require_grads()
    trainable.train()
    ids = torch.randint(0, 32, (2, 8))
    loss = trainable(input_ids=ids, labels=ids).loss
    if loss.requires_grad:
        loss.backward()
    named = [(name, each) for name, each in trainable.named_parameters() if each.requires_grad]
    return {"loss": loss.item(), "without": [name for name, each in named if each.grad is None], "named": len(named)}


def kept_predictions(moved):
    """What Trainer.predict gives of rows of several lengths, by model outputs of several parts.

    With `moved`, the memory of this CPU stands for that of a device.
    """
    import transformers
    from trueup_instrument.appliers.remedies import eval_accumulation_steps

    eval_accumulation_steps.MANY = 4000
    if moved:
        eval_accumulation_steps.HOST = ()
    small = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(vocab_size=50, num_hidden_layers=2, **small, output_hidden_states=True)
    torch.manual_seed(0)
    given = transformers.LlamaForCausalLM(config)
    rows = [{"input_ids": (ids := torch.arange(4 + n % 5)), "labels": ids} for n in range(21)]

    def collate(each):
        return {
            name: nn.utils.rnn.pad_sequence([row[name] for row in each], batch_first=True, padding_value=padding)
            for name, padding in (("input_ids", 0), ("labels", -100))
        }

    results = []
    for concatenated in (True, False):
        arguments = transformers.TrainingArguments(
            "out",
            per_device_eval_batch_size=2,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            bf16_full_eval=concatenated,
            eval_do_concat_batches=concatenated,
        )
        seen = transformers.Trainer(given, arguments, data_collator=collate).predict(rows)
        parts = torch.utils._pytree.tree_leaves((seen.predictions, seen.label_ids))
        results += [[str(part.dtype), list(part.shape), float(abs(part).sum())] for part in parts]
        results.append(seen.metrics["test_loss"])
    return results


class Experts(nn.Module):
    """Two experts a token. The router's scores are rounded anew each time, as by atomics."""

    def __init__(self, noise):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.noise = noise
        self.arrival = torch.Generator().manual_seed(5)

    def forward(self, x):
        flat = x.flatten(0, -2)
        scores = self.router(flat)
        scores = scores + self.noise * torch.randn(scores.shape, generator=self.arrival)
        weights, chosen = torch.topk(scores.softmax(-1), 2, dim=-1)
        weights /= weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, token, expert(flat[token]).tanh() * weights[token, place].unsqueeze(1))
        return x + out.view_as(x)


class Drawn(nn.Module):
    """Draws the expert of a token, and what it drops after that."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        flat = x.flatten(0, -2)
        weights = self.router(flat).softmax(-1)
        chosen = torch.multinomial(weights, 1)
        given = torch.stack([expert(flat) for expert in self.experts], 1)
        out = given.take_along_dim(chosen.unsqueeze(-1), 1).squeeze(1) * weights.gather(1, chosen)
        return x + functional.dropout(out, 0.5).view_as(x)


class Routed(nn.Module):
    """Its blocks of experts, recomputed or not."""

    def __init__(self, noise, recompute):
        super().__init__()
        self.blocks = nn.ModuleList(Drawn() if noise is None else Experts(noise) for _ in range(2))
        self.recompute = recompute

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return x


def experts(noise):
    """What is trained without recomputation, and with it; the words of the error in its place. No noise: drawn."""

    def told(recompute):
        torch.manual_seed(0)
        model = Routed(noise, recompute)
        x = torch.randn(64, LENGTH, WIDTH)
        try:
            loss = model(x).square().mean()
            loss.backward()
        except torch.utils.checkpoint.CheckpointError as error:
            return str(error)
        return [loss.item(), *(p.grad.norm().item() for p in model.parameters())]

    return {"kept": told(False), "recomputed": told(True)}


class Kept(nn.Module):
    """Keeps the norm of what it computes, and reads what it kept: not at all, its length, or by another name."""

    def __init__(self, reads):
        super().__init__()
        self.linear, self.reads, self.history = nn.Linear(WIDTH, WIDTH), reads, []
        if reads == "alias":
            self.kept = self.history

    def forward(self, x):
        y = self.linear(x)
        self.history.append(y.detach().norm())
        return y


class Measured(Kept):
    def forward(self, x):
        return super().forward(x) / (1 + len(self.history))


def growing_lists(reads):
    """What is trained, and what is in the list and known of it between the steps."""
    torch._dynamo.config.recompile_limit = 3
    torch.manual_seed(0)
    block = (Measured if reads == "length" else Kept)(reads)
    lengths, mine = [], block.history if reads == "variable" else None
    block.compile(backend="aot_eager")
    told = trained(nn.Sequential(block), steps=6, before=lambda step: lengths.append(len(block.history)))
    same = mine is None or mine is block.history
    return {**told, "lengths": lengths, "history": [each.item() for each in block.history], "same": same}


class Stepping:
    """A training step of an Accelerator, or of the program's own."""

    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.model = nn.Sequential(*(Block(Scaled(0.3)) for _ in range(2)))

    def step(self, x):
        loss = self.model(x).square().mean()
        if self.accelerator is not None:
            self.accelerator.backward(loss)
        return loss


def trainer_steps(kind):
    """A method, or a function, that uses an Accelerator, or nothing of a trainer, compiled as a whole."""
    accelerator = None
    if kind != "own":
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    stepping = Stepping(accelerator)
    model = stepping.model

    def function(x):
        loss = model(x).square().mean()
        accelerator.backward(loss)
        return loss

    step = torch.compile(function if kind == "function" else stepping.step, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses, gradients = [], []
    for _ in range(STEPS):
        loss = step(torch.randn(2, LENGTH, WIDTH))
        if kind == "own":
            loss.backward()
        gradients.append([p.grad.norm().item() for p in model.parameters()])
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    in_place = model._compiled_call_impl is not None
    return {"losses": losses, "gradients": gradients, "breaks": breaks, "in_place": in_place, **compiler()}


def redirected_steps():
    """A LightningModule with a forward of its own, whose training step is sent through a wrapper, as under DDP."""
    from lightning.pytorch import LightningModule
    from lightning.pytorch.strategies.strategy import _ForwardRedirection

    class Trained(LightningModule):
        def __init__(self):
            super().__init__()
            self.network = nn.Sequential(*(Block(Scaled(0.3)) for _ in range(2)))

        def forward(self, x):
            return self.network(x) * 2

        def training_step(self, batch, index):
            traced.append(torch.compiler.is_compiling())
            return self(batch).square().mean()

    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *args, **kwargs):
            return self.module(*args, **kwargs)

    traced = []
    torch.manual_seed(0)
    module = Trained()
    compiled = torch.compile(module, backend="aot_eager")
    wrapper, redirect = Wrapper(compiled), _ForwardRedirection()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    losses, gradients = [], []
    for index in range(STEPS):
        x = torch.randn(2, LENGTH, WIDTH)
        loss = redirect(wrapper, getattr(compiled, "_orig_mod", compiled), "training_step", x, index)
        loss.backward()
        gradients.append([p.grad.norm().item() for p in module.parameters()])
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {"losses": losses, "gradients": gradients, "traced": traced, **compiler()}


def whole_graph():
    """A compiled function of no trainer that a compiled module calls first, as one graph."""
    torch.manual_seed(0)

    @torch.compile(backend="aot_eager")
    def scaled(x):
        return x * 2

    class Scaling(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return scaled(self.linear(x))

    model = Scaling()
    model.compile(backend="aot_eager", fullgraph=True)
    return {**trained(model), **compiler()}


def packed_rows(single):
    """One row of packed documents a step through flash attention, whose kernels are written with plain operators."""
    import transformers.modeling_flash_attention_utils as flash
    from transformers import AttentionInterface, AttentionMaskInterface, LlamaConfig, LlamaForCausalLM
    from transformers.integrations.flash_attention import flash_attention_forward

    def kernel(q, k, v, **options):
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    def apart(q, k, v, cu_seqlens_q, cu_seqlens_k, **options):
        document = torch.bucketize(torch.arange(q.shape[0]), cu_seqlens_q[1:], right=True)
        q, k, v = (each.transpose(0, 1)[None] for each in (q, k, v))
        mask = (document[:, None] == document[None]).tril()
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0].transpose(0, 1)

    flash._lazy_imports = lambda *given, **options: (kernel, apart, None, None, None)
    AttentionInterface.register("flash_written", flash_attention_forward)
    AttentionMaskInterface.register("flash_written", lambda *args, **options: None)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        use_cache=False,
        attn_implementation="flash_written",
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    for layer in model.model.layers:
        layer.compile(backend="aot_eager")
    losses, gradients = [], []
    for step in range(4):
        ids = torch.randint(0, 32, (1, 12))
        lengths = (12,) if single else ((5, 7), (3, 3, 6), (12,), (8, 4))[step]
        places = torch.cat([torch.arange(length) for length in lengths])[None]
        loss = model(input_ids=ids, labels=ids, position_ids=places).loss
        loss.backward()
        gradients.append([p.grad.norm().item() for p in model.parameters()])
        model.zero_grad()
        losses.append(loss.item())
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    return {"losses": losses, "gradients": gradients, "breaks": breaks, **compiler()}
