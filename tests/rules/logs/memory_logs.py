"""What torch and the kernel print when memory ends, in the wordings from torch 1.13 on."""
# ruff: noqa: E501  (lines stand as they are printed)

from text_case import negative, positive

LOGITS = "memory/full-vocabulary-logits"
PREDICTIONS = "memory/evaluation-predictions-accumulate"
FRAGMENTS = "memory/allocator-fragmentation"
SHARED = "memory/gpu-shared-with-other-processes"
FIRST_GPU = "memory/all-ranks-load-on-first-gpu"
EVERY_RANK = "memory/full-model-loaded-on-every-rank"
SEARCH = "memory/batch-size-search-recompiles"

HINT = (
    "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management"
)


def traceback(*frames: tuple[str, str, str], error: str) -> str:
    lines = ["Traceback (most recent call last):"]
    for file, function, code in frames:
        lines += [f'  File "{file}", line 10, in {function}', f"    {code}"]
    return "\n".join([*lines, error])


SITE = "/v/lib/python3.11/site-packages"
PLAIN = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 37.10 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
    "20.10 GiB is free. Including non-PyTorch memory, this process has 59.00 GiB memory in use. Of the allocated memory 57.00 "
    f"GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated. {HINT}"
)

CASES = (
    # -- full-vocabulary-logits
    positive(
        LOGITS,
        "in the loss",
        traceback(
            ("/home/me/train.py", "main", "loss = model(**batch).loss"),
            (f"{SITE}/transformers/loss/loss_utils.py", "ForCausalLMLoss", "logits = logits.float()"),
            error=PLAIN,
        ),
        "likely",
    ),
    positive(
        LOGITS,
        "in the head",
        traceback(
            (f"{SITE}/transformers/models/qwen2/modeling_qwen2.py", "forward", "logits = self.lm_head(hidden_states)"),
            (f"{SITE}/torch/nn/modules/linear.py", "forward", "return F.linear(input, self.weight, self.bias)"),
            error=PLAIN,
        ),
        "likely",
    ),
    positive(LOGITS, "a large request alone is a possibility", PLAIN, "possible"),
    negative(
        LOGITS,
        "in attention",
        traceback(
            (
                f"{SITE}/transformers/integrations/sdpa_attention.py",
                "forward",
                "torch.nn.functional.scaled_dot_product_attention(",
            ),
            error=PLAIN,
        ),
    ),
    negative(LOGITS, "a small request", PLAIN.replace("37.10 GiB", "20.00 MiB")),
    # -- evaluation-predictions-accumulate
    positive(
        PREDICTIONS,
        "while predictions are put together",
        traceback(
            ("/home/me/train.py", "main", "trainer.train()"),
            (f"{SITE}/transformers/trainer.py", "evaluation_loop", "all_preds.add(logits)"),
            (
                f"{SITE}/transformers/trainer_pt_utils.py",
                "nested_concat",
                "return torch_pad_and_concatenate(tensors, new_tensors)",
            ),
            error=PLAIN,
        ),
        "established",
    ),
    positive(
        PREDICTIONS,
        "cut to the innermost frame",
        f"""
          File "{SITE}/transformers/trainer_pt_utils.py", line 100, in torch_pad_and_concatenate
            return torch.cat((tensor1, tensor2), dim=0)
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 45.66 GiB.
        """,
    ),
    positive(
        PREDICTIONS,
        "the loop of transformers 4.40",
        traceback(
            (
                f"{SITE}/transformers/trainer.py",
                "evaluation_loop",
                "preds_host = logits if preds_host is None else nested_concat(preds_host, logits, padding_index=-100)",
            ),
            error="torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 45.66 GiB.",
        ),
    ),
    negative(
        PREDICTIONS,
        "in the model during evaluation",
        traceback(
            (
                f"{SITE}/transformers/trainer.py",
                "evaluation_loop",
                "losses, logits, labels = self.prediction_step(model, inputs)",
            ),
            (f"{SITE}/torch/nn/modules/linear.py", "forward", "return F.linear(input, self.weight, self.bias)"),
            error=PLAIN.replace("37.10 GiB", "512.00 MiB"),
        ),
    ),
    # -- allocator-fragmentation
    positive(
        FRAGMENTS,
        "much is reserved and idle",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
        "1.10 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 50.00 "
        f"GiB is allocated by PyTorch, and 27.00 GiB is reserved by PyTorch but unallocated. {HINT}",
        "likely",
    ),
    positive(
        FRAGMENTS,
        "torch 1.13",
        "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 23.70 GiB total capacity; 12.00 GiB already "
        "allocated; 0.90 GiB free; 21.50 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb to avoid fragmentation.",
    ),
    negative(
        FRAGMENTS,
        "the hint with little idle",
        PLAIN.replace("37.10 GiB", "512.00 MiB"),
    ),
    positive(
        FRAGMENTS,
        "torch 2.1 in a container, where the process is one of the others",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacty of 79.15 GiB of "
        "which 1.10 GiB is free. Process 3258 has 78.00 GiB memory in use. Of the allocated memory 50.00 GiB is allocated by "
        "PyTorch, and 27.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "max_split_size_mb to avoid fragmentation.",
        "likely",
    ),
    # -- gpu-shared-with-other-processes
    positive(
        SHARED,
        "named processes",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which "
        "13.62 MiB is free. Process 12345 has 60.00 GiB memory in use. Process 6789 has 15.00 GiB memory in use. Including "
        "non-PyTorch memory, this process has 4.00 GiB memory in use. Of the allocated memory 3.40 GiB is allocated by PyTorch, "
        f"and 20.00 MiB is reserved by PyTorch but unallocated. {HINT}",
        "established",
    ),
    positive(
        SHARED,
        "torch 1.13 names none",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.70 GiB total capacity; 2.00 GiB already "
        "allocated; 5.00 MiB free; 2.10 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb to avoid fragmentation.",
        "likely",
    ),
    positive(
        SHARED,
        "in a container, where the process is one of the others",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
        "1.00 GiB is free. Process 123 has 60.00 GiB memory in use. Process 456 has 18.00 GiB memory in use. Of the allocated "
        f"memory 17.00 GiB is allocated by PyTorch, and 102.40 MiB is reserved by PyTorch but unallocated. {HINT}",
        "established",
    ),
    negative(
        SHARED,
        "in a container, alone",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 14.75 GiB of which "
        "11.06 MiB is free. Process 3258 has 14.73 GiB memory in use. Of the allocated memory 14.04 GiB is allocated by PyTorch, "
        f"and 509.85 MiB is reserved by PyTorch but unallocated. {HINT}",
    ),
    negative(
        SHARED,
        "one process has it all",
        PLAIN.replace("37.10 GiB", "512.00 MiB")
        .replace("20.10 GiB is free", "20.10 MiB is free")
        .replace("59.00", "79.00"),
    ),
    negative(
        SHARED,
        "a container that hides its processes",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 22.19 GiB of which "
        "5.38 MiB is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use.",
    ),
    # -- all-ranks-load-on-first-gpu
    positive(
        FIRST_GPU,
        "rank 3 on GPU 0",
        "\n".join(
            f"[rank3]: {line}"
            for line in traceback(
                ("/home/me/train.py", "main", "state = load_file(path, device='cuda')"),
                (f"{SITE}/safetensors/torch.py", "load_file", "result[k] = f.get_tensor(k)"),
                error=PLAIN.replace("37.10 GiB", "512.00 MiB"),
            ).splitlines()
        ),
        "likely",
    ),
    negative(
        FIRST_GPU,
        "its own GPU",
        "\n".join(
            f"[rank3]: {line}"
            for line in traceback(
                (f"{SITE}/safetensors/torch.py", "load_file", "result[k] = f.get_tensor(k)"),
                error=PLAIN.replace("37.10 GiB", "512.00 MiB").replace("GPU 0", "GPU 3"),
            ).splitlines()
        ),
    ),
    # -- full-model-loaded-on-every-rank
    positive(
        EVERY_RANK,
        "the launcher tells of a kill",
        "E1129 10:00:00.000000 140 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 0 "
        "(pid: 4242) of binary: /usr/bin/python",
        "possible",
    ),
    negative(
        EVERY_RANK, "an error of its own", "failed (exitcode: 1) local_rank: 0 (pid: 4242) of binary: /usr/bin/python"
    ),
    # -- batch-size-search-recompiles
    positive(
        SEARCH,
        "compile is in the traceback",
        traceback(
            (f"{SITE}/accelerate/utils/memory.py", "decorator", "return function(batch_size, *args, **kwargs)"),
            (f"{SITE}/torch/_dynamo/eval_frame.py", "compile_wrapper", "return fn(*args, **kwargs)"),
            error="RuntimeError: No executable batch size found, reached zero.",
        ),
        "likely",
    ),
    negative(
        SEARCH,
        "without compile",
        traceback(
            (
                f"{SITE}/accelerate/utils/memory.py",
                "decorator",
                'raise RuntimeError("No executable batch size found, reached zero.")',
            ),
            error="RuntimeError: No executable batch size found, reached zero.",
        ),
    ),
)
