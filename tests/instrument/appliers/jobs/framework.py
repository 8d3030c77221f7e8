"""A tiny Llama with LoRA, compiled, checkpointed and in bfloat16, trained by the framework that the argument names.

Prints the losses as JSON.
"""

import json
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
STEPS = 4


def made():
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, use_cache=False, attn_implementation="sdpa"))
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))


def batch(step):
    ids = torch.randint(0, 64, (4, 12), generator=torch.Generator().manual_seed(step))
    return {"input_ids": ids, "labels": ids}


def by_plain_torch():
    model = made()
    for layer in model.base_model.model.model.layers:
        layer.compile(backend="eager")
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    losses = []
    for step in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**batch(step)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def by_accelerate():
    from accelerate import Accelerator
    from accelerate.utils import TorchDynamoPlugin

    dynamo = TorchDynamoPlugin(backend="eager", use_regional_compilation=True)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", dynamo_plugin=dynamo)
    model = made()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    losses = []
    for step in range(STEPS):
        loss = model(**batch(step)).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def by_trainer():
    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": ids, "labels": ids} for ids in batch(0)["input_ids"]]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            bf16=True,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            torch_compile=True,
            torch_compile_backend="eager",
            per_device_train_batch_size=4,
            max_steps=STEPS,
            optim="sgd",
            learning_rate=0.1,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(model=made(), args=arguments, train_dataset=rows)
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def by_lightning():
    import lightning

    losses = []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = made()

        def training_step(self, batch, index):
            loss = self.model(**batch).loss
            losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=0.1)

    module = Module()
    for layer in module.model.base_model.model.model.layers:
        layer.compile(backend="eager")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        precision="bf16-mixed",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, torch.utils.data.DataLoader([batch(step) for step in range(STEPS)], batch_size=None))
    return losses


print("\n" + json.dumps({"losses": globals()[f"by_{sys.argv[1]}"]()}))
