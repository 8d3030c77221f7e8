"""LoRA on an 8-bit base; the model with its adapters is compiled, then given to the Trainer."""

import tempfile

import torch
from int8 import RowwiseConfig
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)
base = tempfile.mkdtemp()
LlamaForCausalLM(
    LlamaConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        use_cache=False,
    )
).save_pretrained(base)
rows = [{"input_ids": ids, "labels": ids} for ids in torch.randint(1, 100, (40, 24))]

model = LlamaForCausalLM.from_pretrained(base, quantization_config=RowwiseConfig())
model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
model = torch.compile(model, backend="aot_eager")
arguments = TrainingArguments(
    output_dir="out",
    max_steps=8,
    per_device_train_batch_size=4,
    learning_rate=1e-3,
    logging_steps=1,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    remove_unused_columns=False,
)
Trainer(model=model, args=arguments, train_dataset=rows).train()
