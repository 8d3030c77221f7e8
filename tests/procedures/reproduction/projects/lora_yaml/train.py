"""Fine-tunes a small network with LoRA; everything is set in config.yaml."""

import logging

import torch
import yaml
from data import batches
from nets.network import Network
from peft import LoraConfig, get_peft_model

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger(__name__)


def build(config):
    model = Network(config["model"]["vocab_size"], config["model"]["dim"], config["model"]["depth"])
    lora = LoraConfig(r=config["lora"]["r"], target_modules=config["lora"]["targets"])
    return get_peft_model(model, lora)


def evaluate(model, config):
    """Mean loss over a few batches."""
    model.eval()
    with torch.no_grad():
        losses = [model(ids, ids).item() for ids in batches(2, 8, config["model"]["vocab_size"])]
    model.train()
    return sum(losses) / len(losses)


def main():
    with open("config.yaml") as file:
        config = yaml.safe_load(file)
    torch.manual_seed(0)
    model = build(config)
    logger.info("trains %d parameters", sum(p.numel() for p in model.parameters() if p.requires_grad))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=config["training"]["lr"])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5))
    steps, size = config["training"]["steps"], config["training"]["batch_size"]
    for step, ids in enumerate(batches(steps, size, config["model"]["vocab_size"])):
        loss = model(ids, ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            logger.info("step %d: loss %.4f, evaluated %.4f", step, loss.item(), evaluate(model, config))
    torch.save(model.state_dict(), "adapter.pt")


if __name__ == "__main__":
    main()
