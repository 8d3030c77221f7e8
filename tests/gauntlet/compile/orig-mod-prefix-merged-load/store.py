import torch


def save(path, model, optimizer, epoch):
    torch.save({"weights": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)


def restore(path, model):
    """Load what fits; heads may have another size."""
    weights = torch.load(path, weights_only=True)["weights"]
    own = model.state_dict()
    fitting = {k: v for k, v in weights.items() if k in own and own[k].shape == v.shape}
    own.update(fitting)
    model.load_state_dict(own)
    return model
