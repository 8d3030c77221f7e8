"""Logs of the precision and adapter layers: dtypes in the text decide."""
# ruff: noqa: E501  (lines stand as they are printed)

from text_case import negative
from traces import named, traceback

SITE = "/opt/conda/lib/python3.11/site-packages"
LLAMA = f"{SITE}/transformers/models/llama/modeling_llama.py"
WRAPPED = f"{SITE}/accelerate/utils/operations.py"
LINEAR = (f"{SITE}/torch/nn/modules/linear.py", "return F.linear(input, self.weight, self.bias)")

CASES = [
    named(
        "precision/attention-input-dtype-mismatch",
        "the query differs",
        "RuntimeError: Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: "
        "c10::BFloat16 and value.dtype: c10::BFloat16 instead.",
    ),
    named(
        "precision/attention-input-dtype-mismatch",
        "the mask",
        "RuntimeError: Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
        "c10::Half and  query.dtype: c10::BFloat16 instead.",
    ),
    named(
        "precision/attention-input-dtype-mismatch",
        "torch 2.0, the mask",
        "RuntimeError: Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: float and  query.dtype: struct c10::Half instead.",
    ),
    named(
        "precision/attention-input-dtype-mismatch",
        "flash-attn",
        traceback(
            ("train.py", "trainer.train()"),
            (f"{SITE}/flash_attn/flash_attn_interface.py", "out = flash_attn_gpu.fwd("),
            error="RuntimeError: query and key must have the same dtype",
        ),
    ),
    named(
        "precision/attention-input-dtype-mismatch",
        "cut short",
        "RuntimeError: Expected query, key, and value to have the same dtype",
    ),
    negative(
        "precision/attention-input-dtype-mismatch",
        "devices differ",
        "RuntimeError: Expected query, key, and value to have the same device type, but got query.device: cuda:0",
    ),
    named(
        "precision/forward-outside-autocast",
        "generate() in a callback",
        traceback(
            ("train.py", "trainer.train()"),
            LINEAR,
            error="RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16",
        ),
    ),
    named(
        "precision/forward-outside-autocast",
        "CPU",
        "RuntimeError: expected m1 and m2 to have the same dtype, but got: c10::Half != float",
    ),
    named(
        "precision/forward-outside-autocast",
        "a convolution",
        "RuntimeError: Input type (float) and bias type (c10::BFloat16) should be the same",
    ),
    named(
        "precision/forward-outside-autocast",
        "a convolution, old tensor types",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same",
    ),
    named(
        "precision/forward-outside-autocast",
        "old matrix products",
        "RuntimeError: expected scalar type Half but found Float",
        "possible",
    ),
    negative(
        "precision/forward-outside-autocast",
        "double data from numpy",
        traceback(
            ("train.py", "model(torch.from_numpy(x))"),
            LINEAR,
            error="RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float",
        ),
    ),
    negative(
        "precision/forward-outside-autocast",
        "integers into a linear layer",
        "RuntimeError: expected m1 and m2 to have the same dtype, but got: int64_t != float",
    ),
    negative(
        "precision/forward-outside-autocast",
        "the data is on another device",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
    ),
    named(
        "precision/flash-input-cast-back",
        "transformers 5",
        "[transformers] Casting fp32 inputs back to torch.bfloat16 for flash-attn compatibility.",
    ),
    named(
        "precision/flash-input-cast-back",
        "transformers 4.36",
        "The input hidden states seems to be silently casted in float32, this might be related to the fact you have upcasted "
        "embedding or layer norm layers in float32. We will cast back the input in torch.float16.",
    ),
    negative(
        "precision/flash-input-cast-back", "a cast of weights", "Casting weights back to torch.bfloat16 before saving."
    ),
    named(
        "precision/gradscaler-fp16-parameters",
        "Trainer",
        traceback(
            ("train.py", "trainer.train()"),
            (f"{SITE}/torch/amp/grad_scaler.py", 'raise ValueError("Attempting to unscale FP16 gradients.")'),
            error="ValueError: Attempting to unscale FP16 gradients.",
        ),
    ),
    negative(
        "precision/gradscaler-fp16-parameters",
        "unscaled twice",
        "RuntimeError: unscale_() has already been called on this optimizer since the last update().",
    ),
    named(
        "precision/gradscaler-with-bf16",
        "any operator of the scaler",
        "NotImplementedError: \"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
    ),
    named(
        "precision/gradscaler-with-bf16",
        "another device",
        "RuntimeError: \"_amp_non_finite_check_and_unscale_xpu\" not implemented for 'BFloat16'",
    ),
    negative(
        "precision/gradscaler-with-bf16",
        "another operator without bf16",
        "RuntimeError: \"triu_tril_cuda_template\" not implemented for 'BFloat16'",
    ),
    named(
        "precision/fsdp1-gradient-dtype-mismatch",
        "frames of FSDP",
        traceback(
            ("train.py", "loss.backward()"),
            (f"{SITE}/torch/distributed/fsdp/_flat_param.py", "flat_param.grad = flat_param._saved_grad_shard"),
            error="RuntimeError: attempting to assign a gradient with dtype 'c10::Half' to a tensor with dtype 'float'. Please "
            "ensure that the gradient and the tensor have the same dtype",
        ),
    ),
    named(
        "precision/fsdp1-gradient-dtype-mismatch",
        "alone",
        "RuntimeError: attempting to assign a gradient with dtype 'c10::BFloat16' to a tensor with dtype 'float'.",
        "possible",
    ),
    negative(
        "precision/fsdp1-gradient-dtype-mismatch",
        "assigned by hand",
        traceback(
            ("train.py", "parameter.grad = gradient.half()"),
            error="RuntimeError: attempting to assign a gradient with dtype 'c10::Half' to a tensor with dtype 'float'.",
        ),
    ),
    named(
        "adapter/reentrant-checkpoint-input-without-grad",
        "the warning of checkpoint before it",
        """
        /opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:90: UserWarning: None of the inputs have requires_grad=True. Gradients will be None
          warnings.warn(
        Traceback (most recent call last):
          File "train.py", line 40, in <module>
            loss.backward()
          File "/opt/conda/lib/python3.11/site-packages/torch/autograd/__init__.py", line 347, in backward
            _engine_run_backward(
        RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
        """,
    ),
    named(
        "adapter/reentrant-checkpoint-input-without-grad",
        "LoRA and the error",
        """
        trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.06
        Traceback (most recent call last):
          File "train_lora.py", line 40, in <module>
            trainer.train()
          File "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py", line 310, in backward
            torch.autograd.backward(outputs_with_grad, args_with_grad)
        RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
        """,
        "likely",
    ),
    named(
        "adapter/reentrant-checkpoint-input-without-grad",
        "the warning alone, as with frozen towers",
        "UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
        "possible",
    ),
    negative(
        "adapter/reentrant-checkpoint-input-without-grad",
        "a detached loss",
        traceback(
            ("train.py", "loss.detach().backward()"),
            error="RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
        ),
    ),
    named(
        "adapter/quantized-model-compile-refused",
        "Trainer",
        "ValueError: You cannot fine-tune quantized model with `torch.compile()` make sure to pass a non-compiled model when "
        "fine-tuning a quantized model with PEFT",
    ),
    named(
        "adapter/quantized-model-compile-refused",
        "a break inside of bitsandbytes",
        """
        torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print) [ConstantVariable()] {}

        from user code:
           File "/opt/conda/lib/python3.11/site-packages/bitsandbytes/nn/modules.py", line 256, in forward
            out = bnb.matmul_4bit(x, self.weight.t(), bias=bias, quant_state=self.weight.quant_state)
          File "/opt/conda/lib/python3.11/site-packages/bitsandbytes/autograd/_functions.py", line 577, in matmul_4bit
            return MatMul4Bit.apply(A, B, out, bias, quant_state)
        """,
        "likely",
    ),
    negative(
        "adapter/quantized-model-compile-refused",
        "a quantised model without adapters",
        "ValueError: You cannot perform fine-tuning on purely quantized models. Please attach trainable adapters.",
    ),
    named(
        "adapter/lora-forward-graph-break",
        "fullgraph",
        """
        torch._dynamo.exc.Unsupported: generic_jump UserDefinedObjectVariable(set)

        from user code:
           File "/opt/conda/lib/python3.11/site-packages/peft/tuners/lora/layer.py", line 497, in forward
            for active_adapter in self.active_adapters:

        Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information
        """,
    ),
    negative(
        "adapter/lora-forward-graph-break",
        "an error in peft without compile",
        traceback(
            ("train.py", "model(**batch)"),
            (f"{SITE}/peft/tuners/lora/layer.py", "result = self.base_layer(x, *args, **kwargs)"),
            error="RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x8)",
        ),
    ),
    named(
        "precision/fsdp-buffer-dtype-rotary-embedding",
        "Llama 2 under FSDP1",  # message and frames as in pytorch#108211
        traceback(
            ("train.py", "loss = model(**batch).loss"),
            (
                f"{SITE}/torch/distributed/fsdp/fully_sharded_data_parallel.py",
                "output = self._fsdp_wrapped_module(*args, **kwargs)",
            ),
            (LLAMA, "cos, sin = self.rotary_emb(value_states, seq_len=kv_seq_len)"),
            (LLAMA, "self.cos_cached[:, :, :seq_len, ...].to(dtype=x.dtype),"),
            (f"{SITE}/torch/_subclasses/meta_utils.py", 'assert a == b, f"{a} != {b}"'),
            error="AssertionError: torch.float32 != torch.bfloat16",
        ),
        "likely",
    ),
    negative(
        "precision/fsdp-buffer-dtype-rotary-embedding",
        "another buffer",
        traceback(
            ("train.py", "loss = model(**batch).loss"),
            (LLAMA, "hidden_states = self.scale * hidden_states"),
            (f"{SITE}/torch/_subclasses/meta_utils.py", 'assert a == b, f"{a} != {b}"'),
            error="AssertionError: torch.float32 != torch.bfloat16",
        ),
    ),
    negative(
        "precision/fsdp-buffer-dtype-rotary-embedding",
        "a test of the job's own",
        traceback(
            ("train.py", "assert rotary.dtype == x.dtype"),
            error="AssertionError: torch.float32 != torch.bfloat16",
        ),
    ),
    named(
        "precision/accelerate-fp32-output-wrapper",
        "generate() after training",  # frames of accelerate as in pytorch#111317, the message is flash-attn's own check
        traceback(
            ("train.py", "print(model.generate(**prompt))"),
            (f"{SITE}/transformers/generation/utils.py", "outputs = self("),
            (WRAPPED, "return model_forward(*args, **kwargs)"),
            (WRAPPED, "return convert_to_fp32(self.model_forward(*args, **kwargs))"),
            (LLAMA, "attn_output = self._flash_attention_forward("),
            (
                f"{SITE}/flash_attn/flash_attn_interface.py",
                "out, q, k, v, out_padded, softmax_lse, S_dmask, rng_state = flash_attn_cuda.fwd(",
            ),
            error="RuntimeError: query and key must have the same dtype",
        ),
        "likely",
    ),
    negative(
        "precision/accelerate-fp32-output-wrapper",
        "in training",
        traceback(
            ("train.py", "loss = model(**batch).loss"),
            (WRAPPED, "return convert_to_fp32(self.model_forward(*args, **kwargs))"),
            (
                f"{SITE}/flash_attn/flash_attn_interface.py",
                "out, q, k, v, out_padded, softmax_lse, S_dmask, rng_state = flash_attn_cuda.fwd(",
            ),
            error="RuntimeError: query and key must have the same dtype",
        ),
        "precision/attention-input-dtype-mismatch",
    ),
    negative(
        "precision/accelerate-fp32-output-wrapper",
        "generation without accelerate",
        traceback(
            ("train.py", "print(model.generate(**prompt))"),
            (f"{SITE}/transformers/generation/utils.py", "outputs = self("),
            (
                f"{SITE}/flash_attn/flash_attn_interface.py",
                "out, q, k, v, out_padded, softmax_lse, S_dmask, rng_state = flash_attn_cuda.fwd(",
            ),
            error="RuntimeError: query and key must have the same dtype",
        ),
        "precision/attention-input-dtype-mismatch",
    ),
]
