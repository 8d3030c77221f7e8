"""8-bit weights, one scale for each output, as a quantization method of transformers."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers.quantizers import HfQuantizer, register_quantization_config, register_quantizer
from transformers.utils.quantization_config import QuantizationConfigMixin


@register_quantization_config("rowwise_int8")
class RowwiseConfig(QuantizationConfigMixin):
    def __init__(self, **kwargs):
        self.quant_method = "rowwise_int8"


class Int8Linear(nn.Linear):
    def __init__(self, linear):
        super().__init__(linear.in_features, linear.out_features, bias=False, device="meta")
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / 127
        self.weight = nn.Parameter((linear.weight.detach() / scale).round().to(torch.int8), requires_grad=False)
        self.register_buffer("scale", scale)

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale)


@register_quantizer("rowwise_int8")
class RowwiseQuantizer(HfQuantizer):
    requires_calibration = False

    def _process_model_after_weight_loading(self, model, **kwargs):
        for name, module in list(model.named_modules()):
            if type(module) is nn.Linear and "lm_head" not in name:
                parent, _, last = name.rpartition(".")
                setattr(model.get_submodule(parent), last, Int8Linear(module))
        return model

    def is_serializable(self):
        return False

    @property
    def is_trainable(self):
        return True
