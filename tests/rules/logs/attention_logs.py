"""Logs of the attention layer: kernels that refuse, notices that mean nothing, reasons that torch gives."""
# ruff: noqa: E501  (lines stand as they are printed)

from text_case import negative
from traces import named, traceback

SITE = "/opt/conda/lib/python3.11/site-packages"
SDPA = f"{SITE}/transformers/integrations/sdpa_attention.py"
HELPER = f"{SITE}/transformers/modeling_flash_attention_utils.py"
CALL = "attn_output = torch.nn.functional.scaled_dot_product_attention("

CASES = [
    named(
        "attention/flash-fp32-input",
        "traceback of flash-attn 2",
        traceback(
            ("train.py", "trainer.train()"),
            (f"{SITE}/flash_attn/flash_attn_interface.py", "out, softmax_lse = flash_attn_gpu.varlen_fwd("),
            error="RuntimeError: FlashAttention only support fp16 and bf16 data type",
        ),
    ),
    named(
        "attention/flash-fp32-input",
        "flash-attn 3",
        "RuntimeError: FlashAttention only supports fp16, bf16, and fp8_e4m3 data type",
    ),
    named(
        "attention/flash-fp32-input",
        "flash-attn 1, without the GPU terms",
        "> RuntimeError: Expected q_dtype == torch::kFloat16 || q_dtype == torch::kBFloat16 to be true, but got false.",
    ),
    named(
        "attention/flash-fp32-input",
        "flash-attn 4",
        traceback(
            ("train.py", "loss = model(**batch).loss"),
            (f"{SITE}/flash_attn/cute/interface.py", "assert q.dtype in [torch.float16, torch.bfloat16]"),
            error="AssertionError: inputs must be float16 or bfloat16",
        ),
        "likely",
    ),
    negative(
        "attention/flash-fp32-input",
        "the notice at load time of a job that goes on",
        """
        Flash Attention 2 only supports torch.float16 and torch.bfloat16 dtypes, but the current dype in LlamaModel is torch.float32.
        {'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1}
        """,
    ),
    negative(
        "attention/flash-fp32-input",
        "another assertion about half precision",
        "AssertionError: inputs must be float16 or bfloat16 images, got uint8",
    ),
    named(
        "attention/flash-gpu-architecture-too-old",
        "flash-attn 2 on a T4",
        traceback(
            ("train.py", "main()"),
            (f"{SITE}/flash_attn/flash_attn_interface.py", "return flash_attn_cuda.fwd("),
            error="RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        ),
    ),
    named(
        "attention/flash-gpu-architecture-too-old",
        "flash-attn 1",
        "RuntimeError: Expected is_sm90 || is_sm8x || is_sm75 to be true, but got false.  (Could this error message be "
        "improved?  If so, please report an enhancement request to PyTorch.)",
    ),
    named(
        "attention/flash-gpu-architecture-too-old",
        "the reason that SDPA gives, as a warning",
        "UserWarning: Flash attention only supports gpu architectures in the range [sm80, sm90]. Attempting to run "
        "on a sm "
        "7.5 gpu. (Triggered internally at ../aten/src/ATen/native/transformers/cuda/sdp_utils.cpp:236.)",
        "likely",
    ),
    negative(
        "attention/flash-gpu-architecture-too-old",
        "a copy in xformers",
        """
        RuntimeError: FlashAttention only supports Ampere GPUs or newer.
        Exception raised from mha_bwd at /xformers/third_party/flash-attention/csrc/flash_attn/flash_api.cpp:812
        """,
        instead="attention/bundled-flash-rejects-newer-gpu",
    ),
    named(
        "attention/bundled-flash-rejects-newer-gpu",
        "the GPU is named",
        """
        GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-0)
        RuntimeError: FlashAttention only supports Ampere GPUs or newer.
        """,
        "likely",
    ),
    named(
        "attention/bundled-flash-rejects-newer-gpu",
        "frames of xformers",
        traceback(
            ("train.py", "main()"),
            (f"{SITE}/xformers/ops/fmha/flash.py", "return _C_flashattention.fwd("),
            error="RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        ),
        "likely",
    ),
    negative(
        "attention/bundled-flash-rejects-newer-gpu",
        "the sentence alone",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        instead="attention/flash-gpu-architecture-too-old",
    ),
    named(
        "attention/flash-backward-head-dim-limit",
        "flash-attn 1",
        "RuntimeError: FlashAttention backward for head dim > 64 requires A100 or H100 GPUs as the implementation "
        "needs a "
        "large amount of shared memory.",
    ),
    named(
        "attention/flash-backward-head-dim-limit",
        "flash-attn 2.5",
        "RuntimeError: FlashAttention backward for head dim 256 with dropout, or head dim 224 with/without dropout "
        "requires "
        "A100/A800 or H100/H800",
    ),
    named(
        "attention/flash-backward-head-dim-limit",
        "torch 2.0",
        "RuntimeError: Expected is_sm80 to be true, but got false.  (Could this error message be improved?)",
    ),
    negative(
        "attention/flash-backward-head-dim-limit",
        "head size above what the forward takes",
        "RuntimeError: FlashAttention forward only supports head dimension at most 256",
    ),
    named(
        "attention/flash-padding-side-guard",
        "a training step",
        traceback(
            ("train.py", "trainer.train()"),
            (f"{SITE}/transformers/models/mistral/modeling_mistral.py", "raise ValueError("),
            error="ValueError: You are attempting to perform batched generation with padding_side='right' this may lead to "
            "unexpected behaviour for Flash Attention version of Mistral. Make sure to  call "
            "`tokenizer.padding_side  = "
            "'left'` before tokenizing the input. ",
        ),
    ),
    named(
        "attention/flash-padding-side-guard",
        "cut short, in Markdown",
        "> `ValueError: You are attempting to perform batched generation with padding_side='right'`",
    ),
    negative(
        "attention/flash-padding-side-guard",
        "the warning of generate()",
        "A decoder-only architecture is being used, but right-padding was detected! For correct generation "
        "results, please "
        "set `padding_side='left'` when initializing the tokenizer.",
    ),
    named(
        "attention/flash-model-not-on-gpu-notice",
        "transformers 5",
        "You are attempting to use Flash Attention 3 with a model not initialized on GPU. Please make sure to have "
        "access "
        "to a GPU and either initialise the model on a GPU by passing a device_map or initialising the model on "
        "CPU and "
        "then moving it to GPU, e.g. with `model.to('cuda')`.",
    ),
    named(
        "attention/flash-model-not-on-gpu-notice",
        "transformers 4.34",
        "You are attempting to use Flash Attention 2.0 with a model initialized on CPU. Make sure to move the "
        "model to GPU "
        "after initializing it on CPU with `model.to('cuda')`.",
    ),
    negative(
        "attention/flash-model-not-on-gpu-notice",
        "another error follows",
        "You are attempting to use Flash Attention 2.0 with a model not initialized on GPU. Make sure to move the "
        "model.\n" + traceback(("train.py", "print(batch['labels'])"), error="KeyError: 'labels'"),
    ),
    negative(
        "attention/flash-model-not-on-gpu-notice",
        "the error that no GPU is there",
        "ValueError: You are attempting to use Flash Attention 2 with a model not initialized on GPU and with no GPU "
        "available. This is not supported yet.",
    ),
    named(
        "attention/sdpa-no-eligible-kernel",
        "warnings say why",
        """
        train.py:12: UserWarning: Flash attention kernel not used because: (Triggered internally at sdp_utils.cpp:700.)
          out = F.scaled_dot_product_attention(q, k, v)
        train.py:12: UserWarning: Expected query, key and value to all be of dtype: {Half, BFloat16}. Got Query dtype: float, Key dtype: float, and Value dtype: float instead.
          out = F.scaled_dot_product_attention(q, k, v)
        Traceback (most recent call last):
          File "train.py", line 12, in <module>
            out = F.scaled_dot_product_attention(q, k, v)
        RuntimeError: No available kernel. Aborting execution.
        """,
    ),
    named(
        "attention/sdpa-no-eligible-kernel",
        "all kernels off",
        "RuntimeError: No viable backend for scaled_dot_product_attention was found. This is likely due to turning "
        "off both "
        "the math kernel and the fused kernels.",
    ),
    named(
        "attention/sdpa-no-eligible-kernel",
        "alone",
        "RuntimeError: No available kernel. Aborting execution.",
        "possible",
    ),
    negative(
        "attention/sdpa-no-eligible-kernel",
        "a kernel of another kind",
        "modprobe: ERROR: No available kernel modules for 6.8.0-40-generic. Aborting.",
    ),
    named(
        "attention/sdpa-backend-disabled-globally",
        "warnings say that all are off",
        """
        UserWarning: Memory efficient kernel not used because: (Triggered internally at sdp_utils.cpp:692.)
        UserWarning: Memory Efficient attention has been runtime disabled. (Triggered internally at sdp_utils.cpp:530.)
        UserWarning: Flash attention kernel not used because: (Triggered internally at sdp_utils.cpp:694.)
        UserWarning: Flash attention has been runtime disabled. (Triggered internally at sdp_utils.cpp:531.)
        RuntimeError: No available kernel. Aborting execution.
        """,
        "likely",
    ),
    negative(
        "attention/sdpa-backend-disabled-globally",
        "the calling code restricts them",
        traceback(
            ("train.py", "with sdpa_kernel(SDPBackend.FLASH_ATTENTION): out = attend(q, k, v)"),
            error="RuntimeError: No available kernel. Aborting execution.",
        ),
    ),
    named(
        "attention/kernel-math-fallback",
        "grouped queries in transformers",
        traceback(
            ("train.py", "trainer.train()"),
            (
                SDPA,
                "attn_output = torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)",
            ),
            error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 45.64 GiB. GPU 0 has a total capacity of "
            "79.10 GiB of which 12.00 GiB is free.",
        ),
        "likely",
    ),
    negative(
        "attention/kernel-math-fallback",
        "out of memory in a matrix product",
        traceback(
            ("train.py", "trainer.train()"),
            (f"{SITE}/torch/nn/modules/linear.py", "return F.linear(input, self.weight, self.bias)"),
            error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            "79.10 GiB of which 1.00 GiB is free.",
        ),
    ),
    named(
        "attention/cudnn-sdpa-execution-failure",
        "no plan",
        traceback(
            ("train.py", "trainer.train()"),
            (SDPA, CALL),
            error="RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph.",
        ),
    ),
    named(
        "attention/cudnn-sdpa-execution-failure",
        "a check on the plan",
        "RuntimeError: Expected mha_graph.execute(handle, variant_pack, workspace_ptr.get()).is_good() to be true, "
        "but got "
        "false.  (Could this error message be improved?)",
    ),
    negative(
        "attention/cudnn-sdpa-execution-failure",
        "a convolution",
        "RuntimeError: FIND was unable to find an engine to execute this computation",
    ),
    named(
        "attention/output-attentions-forces-eager",
        "raised by transformers 4.53 and newer",
        "ValueError: The `output_attentions` attribute is not supported when using the `attn_implementation` set "
        "to sdpa. "
        "Please set it to 'eager' instead.",
    ),
    named(
        "attention/output-attentions-forces-eager",
        "transformers 4.40",
        "LlamaModel is using LlamaSdpaAttention, but `torch.nn.functional.scaled_dot_product_attention` does not "
        "support "
        "`output_attentions=True`. Falling back to the manual attention implementation, but specifying the manual "
        "implementation will be required from Transformers version v5.0.0 onwards.",
    ),
    named(
        "attention/output-attentions-forces-eager",
        "transformers 4.48",
        "`torch.nn.functional.scaled_dot_product_attention` does not support `output_attentions=True`. Falling "
        "back to eager "
        'attention. This warning can be removed using the argument `attn_implementation="eager"` when loading '
        "the model.",
    ),
    named(
        "attention/output-attentions-forces-eager",
        "transformers 5, where the fused kernel stays",
        "`sdpa` attention does not support `output_attentions=True`. Please set your attention to `eager` if you "
        "want any of "
        "these features.",
        "possible",
    ),
    negative(
        "attention/output-attentions-forces-eager",
        "another argument",
        "ValueError: `sdpa` attention does not support `softcap`. Try using `eager`.",
    ),
    named(
        "attention/packing-without-varlen-attention",
        "a patched layer",
        traceback(
            ("train.py", "trainer.train()"),
            ("/w/patches/llama.py", "hidden_states = self.self_attn(hidden_states, cu_seqlens=cu_seqlens)"),
            error="TypeError: LlamaSdpaAttention.forward() got an unexpected keyword argument 'cu_seqlens'",
        ),
    ),
    named(
        "attention/packing-without-varlen-attention",
        "Python 3.9 names no class",
        "TypeError: forward() got an unexpected keyword argument 'max_seqlen'",
        "likely",
    ),
    named(
        "attention/packing-without-varlen-attention",
        "trl warns",
        "UserWarning: You are using packing, but the attention implementation is not set to 'flash_attention_2'. "
        "Packing "
        "flattens batches into a single sequence.",
        "possible",
    ),
    negative(
        "attention/packing-without-varlen-attention",
        "another argument",
        "TypeError: LlamaModel.forward() got an unexpected keyword argument 'labels'",
    ),
    named(
        "attention/cu-seqlens-inferred-wrongly",
        "transformers 4.54.1, a chunk that starts at 3",  # the message is that of the helper itself, called on a CPU
        traceback(
            ("train.py", "outputs = model(input_ids, position_ids=position_ids)"),
            (HELPER, "q, k, v, idx, (cu_q, cu_k), (mq, mk) = _prepare_from_posids("),
            (HELPER, "max_length = cu_seq_lens.diff().max().item()"),
            error="RuntimeError: max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
        ),
    ),
    named(
        "attention/cu-seqlens-inferred-wrongly",
        "three axes",  # frames as in transformers#44643 and ms-swift#8426
        traceback(
            ("train.py", "trainer.train()"),
            (
                f"{SITE}/transformers/models/qwen3_5/modeling_qwen3_5.py",
                "attn_output, attn_weights = attention_interface(",
            ),
            (HELPER, "out = flash_varlen_fn("),
            (
                f"{SITE}/flash_attn/flash_attn_interface.py",
                "out, softmax_lse, S_dmask, rng_state = flash_attn_gpu.varlen_fwd(",
            ),
            error="torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        ),
        "likely",
    ),
    named(
        "attention/cu-seqlens-inferred-wrongly",
        "an ordinary model, reported where the helper looks at a value",  # as in starVLA#172
        traceback(
            ("train.py", "trainer.train()"),
            (HELPER, "elif is_fa_with_varlen_kwargs or is_fa_with_position_ids:"),
            error="RuntimeError: CUDA error: an illegal memory access was encountered",
        ),
        "possible",
    ),
    negative(
        "attention/cu-seqlens-inferred-wrongly",
        "boundaries out of a padding mask",
        traceback(
            ("train.py", "trainer.train()"),
            (HELPER, "out_unpad = flash_varlen_fn("),
            error="RuntimeError: CUDA error: an illegal memory access was encountered",
        ),
    ),
    negative(
        "attention/cu-seqlens-inferred-wrongly",
        "an empty tensor of the job's own",
        traceback(
            ("train.py", "print(lengths.max())"),
            error="RuntimeError: max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
        ),
    ),
]
