"""A tiny Llama through transformers, PEFT and Trainer, in one process. `# at:` marks lines that the events name."""

import tempfile

import torch
from accelerate.utils import compile_regions
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "vocab_size": 32}

config = LlamaConfig(**SIZES, attn_implementation="eager")
asked = LlamaForCausalLM(config)  # at: asked for eager
plain = LlamaForCausalLM(LlamaConfig(**SIZES, use_cache=False))  # at: asked for nothing

with tempfile.TemporaryDirectory() as folder:
    weights = {
        name: tensor for name, tensor in plain.state_dict().items() if name != "model.layers.1.mlp.up_proj.weight"
    }
    plain.save_pretrained(folder, state_dict={**weights, "extra.weight": torch.ones(1)})
    loaded = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa")  # at: from_pretrained
if hasattr(loaded, "set_attn_implementation"):
    loaded.set_attn_implementation("eager")
loaded.to(torch.bfloat16)  # at: to

loaded.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})  # at: checkpointing
regional = compile_regions(plain, backend="eager")  # at: regions

quantized = prepare_model_for_kbit_training(LlamaForCausalLM(LlamaConfig(**SIZES)), use_gradient_checkpointing=False)
adapted = get_peft_model(  # at: peft
    LlamaForCausalLM(LlamaConfig(**SIZES)), LoraConfig(r=4, target_modules=["v_proj", "q_proj"])
)
further = get_peft_model(LlamaForCausalLM(LlamaConfig(**SIZES)), LoraConfig(r=2, target_modules=["q_proj"]))
further.add_adapter("second", LoraConfig(r=2, target_modules=["q_proj"]))  # at: second adapter
further.set_adapter("second")
arguments = TrainingArguments(
    output_dir="unused",
    use_cpu=True,
    bf16=True,
    gradient_checkpointing=True,
    gradient_accumulation_steps=2,
    torch_compile=True,
    torch_compile_backend="eager",
    report_to=[],
)
rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 4
trainer = Trainer(model=adapted, args=arguments, train_dataset=rows)  # at: trainer
print("finished", type(trainer.model).__name__)
