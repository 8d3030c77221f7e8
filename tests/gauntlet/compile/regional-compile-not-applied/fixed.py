"""accelerate with regional compilation; a hook on the model measures its inputs."""

import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM


class Meter:
    tokens = 0


def main():
    torch.manual_seed(0)
    plugin = TorchDynamoPlugin(backend="aot_eager", use_regional_compilation=True)
    accelerator = Accelerator(cpu=True, dynamo_plugin=plugin)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=96,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            use_cache=False,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.randint(0, 96, (24, 24)), batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for step, ids in enumerate(loader):
        Meter.tokens += ids.numel()
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), Meter.tokens, flush=True)


if __name__ == "__main__":
    main()
