"""A tiny Llama trained by Trainer with an adapter, and a model prepared by Accelerate. Prints facts as JSON."""

import json
import os
import sys
import tempfile

import torch
from accelerate import Accelerator
from peft import LoraConfig, PrefixTuningConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}

ROWS = [{"input_ids": torch.arange(n, n + 8), "labels": torch.arange(n, n + 8)} for n in range(16)]
LORA = LoraConfig(
    r=4,
    target_modules=["q_proj", "v_proj"],
    init_lora_weights="pissa",
    modules_to_save=["lm_head"],
    trainable_token_indices=[1, 2],
)


def loaded():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(folder)
        return LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa")


def trained(model):
    """The trainer, and the loss of each step."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            bf16=True,
            gradient_checkpointing=True,
            torch_compile=True,
            torch_compile_backend="eager",
            per_device_train_batch_size=4,
            max_steps=6,
            learning_rate=1e-2,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=0,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=ROWS)
        trainer.train()
    return trainer, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


model = loaded()
if sys.argv[1:] == ["without adapter"]:
    print(json.dumps({"losses": trained(model)[1]}))
    sys.exit()
adapted = get_peft_model(model, LORA)
layer = adapted.base_model.model.model.layers[0].self_attn.q_proj
base = getattr(layer, "base_layer", layer)
before = base.weight.detach().clone()
trainer, losses = trained(adapted)

os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16"  # as `accelerate launch` does
accelerator = Accelerator(cpu=True)
plain = accelerator.prepare(torch.nn.Linear(4, 2))
second = LlamaForCausalLM(LlamaConfig(**SIZES))
second.set_attn_implementation("sdpa")
prefixed = get_peft_model(second, PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
with accelerator.autocast():
    inside = (torch.ones(2, 4) @ torch.ones(4, 2)).dtype

print(
    json.dumps(
        {
            "losses": losses,
            "adapter layer": type(layer).__name__,
            "base layer": type(base).__name__,
            "of the adapter": sum("lora_" in n or "modules_to_save" in n for n, _ in adapted.named_parameters()),
            "base trainable": base.weight.requires_grad,
            "base moved": not torch.equal(base.weight.to(before.dtype), before),
            "init": LORA.init_lora_weights,
            "head trainable": adapted.base_model.model.lm_head.weight.requires_grad,
            "checkpointing flag": model.is_gradient_checkpointing,
            "model dtype": str(base.weight.dtype),
            "attention": model.config._attn_implementation,
            "second attention": second.config._attn_implementation,
            "mixed precision": [accelerator.mixed_precision, trainer.accelerator.mixed_precision],
            "autocast": str(inside),
            "prefix": type(prefixed).__name__,
        }
    )
)
