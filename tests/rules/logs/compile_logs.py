"""Logs of the compile layer: graph breaks, guards, caches, generated code."""
# ruff: noqa: E501  (lines stand as they are printed)

from text_case import negative
from traces import named, traceback

SITE = "/opt/conda/lib/python3.11/site-packages"
EXPLAINED = """
torch._dynamo.exc.Unsupported: {kind}
  Explanation: {explanation}
  Hint: It may be possible to write Dynamo tracing rules for this code.

  Developer debug context: {context}

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0000.html

from user code:
   File "{file}", line 61, in forward
    {code}

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're reporting a bug to PyTorch).
"""


def unsupported(
    kind: str, explanation: str, code: str, *, context: str = "module: m", file: str = "/w/model.py"
) -> str:
    """What torch 2.7 and newer raise for a break under fullgraph=True."""
    return EXPLAINED.format(kind=kind, explanation=explanation, code=code, context=context, file=file)


def limit(reason: str | None, function: str = "'forward' (/w/model.py:12)", name: str = "recompile_limit") -> str:
    """The warning at the limit, as torch 2.6 and newer print it."""
    lines = [f"torch._dynamo hit config.{name} (8)", f"   function: {function}"]
    lines += [f"   last reason: {reason}"] if reason else []
    lines += ['To log all recompilation reasons, use TORCH_LOGS="recompiles".']
    head = "W1129 15:53:51.312000 9100 site-packages/torch/_dynamo/convert_frame.py:1358] [0/8] "
    return "\n".join(head + line for line in lines)


def recompiles(*reasons: str) -> str:
    """What TORCH_LOGS=recompiles prints."""
    head = "V1129 15:53:51.312000 9100 torch/_dynamo/guards.py:3006] [0/{}] [__recompiles] "
    lines = []
    for number, reason in enumerate(reasons, 1):
        lines += [
            head.format(number) + "Recompiling function forward in /w/model.py:12",
            head.format(number) + "    triggered by the following guard failure(s):",
            head.format(number) + f"    - 0/{number - 1}: {reason}",
        ]
    return "\n".join(lines)


def size(actual: int) -> str:
    """The guard on the size of an input."""
    return f"tensor 'x' size mismatch at index 1. expected 128, actual {actual}"


BREAKS = [
    named(
        "compile/pybind-kernel-graph-break",
        "torch 2.7 and newer",
        unsupported(
            "Attempted to call function marked as skipped",
            "Dynamo does not know how to trace the builtin `flash_attn_2_cuda.PyCapsule.varlen_fwd.` This function is either "
            "a Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind).",
            "out = flash_attn_gpu.varlen_fwd(q, k, v)",
        ),
    ),
    named(
        "compile/pybind-kernel-graph-break",
        "a warning, another kernel",
        "/w/model.py:9: UserWarning: Graph break due to unsupported builtin mamba_ssm._C.PyCapsule.selective_scan_fwd. This "
        "function is either a Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension (perhaps created "
        "with pybind).",
    ),
    named(
        "compile/pybind-kernel-graph-break",
        "cut short",
        "torch._dynamo.exc.Unsupported: Dynamo does not know how to trace the builtin `flash_attn_3_cuda.fwd.`",
    ),
    named(
        "compile/pybind-kernel-graph-break",
        "torch 2.1",
        "torch._dynamo.exc.Unsupported: call_function PyCapsule.fwd in skip_files Builtin fwd",
    ),
    named(
        "compile/pybind-kernel-graph-break",
        "torch 2.3",
        "torch._dynamo.exc.Unsupported: 'skip function PyCapsule.varlen_fwd in file Builtin varlen_fwd'",
    ),
    negative(
        "compile/pybind-kernel-graph-break",
        "a function of a file, torch 2.3",
        "torch._dynamo.exc.Unsupported: 'skip function scatter in file /usr/lib/python3/dist-packages/einops/einops.py'",
    ),
    negative(
        "compile/pybind-kernel-graph-break",
        "a builtin of Python",
        "UserWarning: Graph break due to unsupported builtin posix.stat. This function is either a Python builtin (e.g. "
        "_warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind).",
    ),
    named(
        "compile/scalar-extraction-graph-break",
        "fullgraph",
        unsupported(
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
            "Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.",
            "max_seqlen = lengths.max().item()",
        ),
    ),
    named(
        "compile/scalar-extraction-graph-break",
        "the warning of torch 2.4 and newer",
        """
        W1129 15:53:51.312000 9100 torch/_dynamo/variables/tensor.py:869] [0/0] Graph break from `Tensor.item()`, consider setting:
        W1129 15:53:51.312000 9100 torch/_dynamo/variables/tensor.py:869] [0/0]     torch._dynamo.config.capture_scalar_outputs = True
        W1129 15:53:51.312000 9100 torch/_dynamo/variables/tensor.py:869] [0/0] Graph break: from user code at:
        W1129 15:53:51.312000 9100 torch/_dynamo/variables/tensor.py:869] [0/0]   File "/w/moe.py", line 11, in forward
        W1129 15:53:51.312000 9100 torch/_dynamo/variables/tensor.py:869] [0/0]     counts = tokens.item()
        """,
    ),
    named(
        "compile/scalar-extraction-graph-break",
        "the operator behind item()",
        "torch._subclasses.fake_tensor.DataDependentOutputException: aten._local_scalar_dense.default",
    ),
    named(
        "compile/scalar-extraction-graph-break",
        "torch 2.1",
        "torch._dynamo.exc.Unsupported: Tensor.tolist",
    ),
    named(
        "compile/scalar-extraction-graph-break",
        "a shape that depends on data, torch 2.5",
        "torch._dynamo.exc.Unsupported: dynamic shape operator: aten.nonzero.default; to enable, set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True",
    ),
    negative(
        "compile/scalar-extraction-graph-break",
        "another method of a tensor",
        "torch._dynamo.exc.Unsupported: Tensor.backward",
    ),
    negative(
        "compile/scalar-extraction-graph-break",
        "item() of a tensor with many elements",
        "RuntimeError: a Tensor with 4 elements cannot be converted to Scalar",
    ),
    named(
        "compile/data-dependent-branch-graph-break",
        "fullgraph",
        unsupported(
            "Data-dependent branching",
            "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic "
            "control flow.",
            "if torch.all(attention_mask == 1):",
            context="attempted to jump with TensorVariable()",
        ),
    ),
    named(
        "compile/data-dependent-branch-graph-break",
        "torch 2.6 and older",
        """
        torch._dynamo.exc.UserError: Dynamic control flow is not supported at the moment. Please use functorch.experimental.control_flow.cond to explicitly capture the control flow.

        from user code:
           File "/w/model.py", line 61, in forward
            if x.sum() > 0:
        """,
    ),
    named(
        "compile/data-dependent-branch-graph-break",
        "torch 2.1",
        "torch._dynamo.exc.Unsupported: guard on data-dependent symbolic int/float",
    ),
    negative(
        "compile/data-dependent-branch-graph-break",
        "a branch without compile",
        "RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
    ),
    named(
        "compile/untraceable-python-in-model-code",
        "logging in forward",
        unsupported(
            "Attempted to call function marked as skipped",
            "Dynamo developers have intentionally marked that the function `info` in file `/usr/lib/python3.11/logging/"
            "__init__.py` should not be traced.",
            'logger.info("step %d", self.step)',
            context="module: logging, qualname: Logger.info, skip reason: <missing reason>",
        ),
        "likely",
    ),
    named(
        "compile/untraceable-python-in-model-code",
        "something else",
        unsupported(
            "Unsupported method call", "Dynamo does not know how to trace method `f` of class `Thing`", "y = t.f(x)"
        ),
        "possible",
    ),
    negative(
        "compile/untraceable-python-in-model-code",
        "a more specific break",
        unsupported("Data-dependent branching", "Detected data-dependent branching.", "if x.sum() > 0:"),
        instead="compile/data-dependent-branch-graph-break",
    ),
    named(
        "compile/device-dispatch-hooks-graph-break",
        "fullgraph",
        unsupported(
            "Skip calling `torch.compiler.disable()`d function",
            "Skip calling function `<bound method AlignDevicesHook.pre_forward of AlignDevicesHook(execution_device=0)>` "
            "since it was wrapped with `torch.compiler.disable` (reason: None)",
            "args, kwargs = module._hf_hook.pre_forward(module, *args, **kwargs)",
            file=f"{SITE}/accelerate/hooks.py",
        ),
    ),
    negative(
        "compile/device-dispatch-hooks-graph-break",
        "a function that the job disabled itself",
        unsupported(
            "Skip calling `torch.compiler.disable()`d function",
            "Skip calling function `log_step` since it was wrapped with `torch.compiler.disable` (reason: None)",
            "log_step(x)",
        ),
    ),
    named(
        "compile/trainer-internals-traced",
        "self.log of Lightning",
        unsupported(
            "Unsupported function call",
            "Dynamo does not know how to trace the function `log`",
            "results = self.trainer._results",
            file=f"{SITE}/lightning/pytorch/core/module.py",
        ),
    ),
    negative(
        "compile/trainer-internals-traced",
        "a trainer that calls a compiled network",
        traceback(
            (f"{SITE}/lightning/pytorch/trainer/trainer.py", "self._run_stage()"),
            ("/w/model.py", "loss = self.net(batch['x'])"),
            error="KeyError: 'x'",
        ),
    ),
    named(
        "compile/fsdp2-hooks-inside-compiled-module",
        "whole model under fullgraph, torch 2.13",
        unsupported(
            "Attempted to call function marked as skipped",
            "Dynamo does not know how to trace the Python function `fsdp_hook_wrapper`.",
            "args, kwargs = hook(self, args, kwargs)",
            context="module: torch.distributed.fsdp._fully_shard._fsdp_state, qualname: fsdp_hook_wrapper",
            file=f"{SITE}/torch/nn/modules/module.py",
        ),
    ),
    named(
        "compile/fsdp2-hooks-inside-compiled-module",
        "torch 2.7",
        unsupported(
            "Skip calling `torch.compiler.disable()`d function",
            "Skip calling function `<function FSDPState._pre_forward at 0x7f>` since it was wrapped with "
            "`torch.compiler.disable` (reason: skipping FSDP hooks)",
            "args_kwargs_result = hook(self, args, kwargs)",
            file=f"{SITE}/torch/nn/modules/module.py",
        ),
    ),
    negative(
        "compile/fsdp2-hooks-inside-compiled-module",
        "hooks of the job",
        unsupported(
            "Attempted to call function marked as skipped",
            "Dynamo does not know how to trace the Python function `my_hook`.",
            "args, kwargs = hook(self, args, kwargs)",
        ),
    ),
    named(
        "compile/fsdp1-flattened-parameters",
        "torch 2.7 and newer",
        unsupported(
            "FSDP with use_orig_params=False", "Dynamo only supports FSDP with use_orig_params=True", "x = self.f(x)"
        ),
    ),
    negative(
        "compile/fsdp1-flattened-parameters",
        "the parameter in another error",
        "ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",
        instead="sharding/fsdp1-nonuniform-requires-grad",
    ),
    named(
        "compile/fullgraph-default-too-strict",
        "generate()",
        traceback(
            ("train.py", "model.generate(**inputs, cache_implementation='static')"),
            (f"{SITE}/transformers/generation/utils.py", "outputs = model_forward(**model_inputs, return_dict=True)"),
            (f"{SITE}/torch/_dynamo/eval_frame.py", "raise e.with_traceback(None) from e.__cause__"),
            error="torch._dynamo.exc.Unsupported: call_method UserDefinedObjectVariable(Thing) update [] {}",
        ),
        "likely",
    ),
    negative(
        "compile/fullgraph-default-too-strict",
        "generate() without compile",
        traceback(
            ("train.py", "model.generate(**inputs)"),
            (f"{SITE}/transformers/generation/utils.py", "outputs = self(**model_inputs, return_dict=True)"),
            error="IndexError: index out of range in self",
        ),
    ),
]

RECOMPILES = [
    named(
        "compile/recompile-optimizer-hyperparameter",
        "the limit",
        limit(
            "0/7: L['self'].param_groups[0]['lr'] == 0.00012",
            function=f"'step' ({SITE}/torch/optim/adamw.py:151)",
            name="cache_size_limit",
        ),
    ),
    negative(
        "compile/recompile-optimizer-hyperparameter",
        "torch 2.10 and newer compile twice",
        "PyTorch version: 2.11.0\n" + limit("0/7: self.param_groups[0]['lr'] == 0.00012"),
        instead="compile/recompile-limit-reached",
    ),
    named(
        "compile/recompile-per-layer-attribute",
        "an index",
        limit("0/7: self.layer_idx == 7  # self.layer_idx  # m.py:3"),
    ),
    named(
        "compile/recompile-per-layer-attribute",
        "hard failure",
        limit("0/7: ___check_obj_id(self._modules['attn'].processor, 1405)")
        + """
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    model(x)
torch._dynamo.exc.FailOnRecompileLimitHit: Hard failure due to fullgraph=True
""",
    ),
    named("compile/recompile-per-layer-attribute", "no reason in the log", limit(None), "possible"),
    negative(
        "compile/recompile-per-layer-attribute",
        "a counter",
        limit("0/7: self.calls == 7"),
        instead="compile/recompile-growing-python-state",
    ),
    named(
        "compile/recompile-growing-python-state",
        "a list",
        recompiles(*(f"len(L['self'].history) == {length}" for length in range(6))),
    ),
    negative("compile/recompile-growing-python-state", "once", recompiles("len(L['self'].history) == 0")),
    named(
        "compile/recompile-kv-cache-in-training",
        "transformers 5",
        limit("0/7: kwargs['past_key_values'].layers[7].is_initialized == False"),
    ),
    named(
        "compile/recompile-kv-cache-in-training",
        "a guard alone",
        "kwargs['cache'].layers[3].is_initialized == False",
    ),
    named(
        "compile/recompile-kv-cache-in-training",
        "transformers 4.45",
        limit("0/7: len(L['past_key_values'].key_cache) == 7", name="cache_size_limit"),
    ),
    negative(
        "compile/recompile-kv-cache-in-training",
        "another list",
        limit("0/7: len(L['self'].history) == 7"),
        instead="compile/recompile-growing-python-state",
    ),
    named("compile/recompile-dynamic-shape", "the limit", limit("0/7: " + size(900))),
    named("compile/recompile-dynamic-shape", "many", recompiles(*map(size, (256, 300, 412, 500)))),
    named(
        "compile/recompile-dynamic-shape",
        "a stride, which is a product of sizes",
        limit("tensor 'L['input_ids']' stride mismatch at index 0. expected 19, actual 27"),
    ),
    negative(
        "compile/recompile-dynamic-shape",
        "a transposed tensor",
        limit("tensor 'L['x']' stride mismatch at index 0. expected 64, actual 1"),
        instead="compile/recompile-limit-reached",
    ),
    negative("compile/recompile-dynamic-shape", "the second size", recompiles(size(256))),
    negative(
        "compile/recompile-dynamic-shape",
        "parameters of an optimizer",
        limit("1/7: " + size(900), function="'zeropower_via_newtonschulz5' (/w/muon.py:20)"),
        instead="compile/recompile-optimizer-parameter-shapes",
    ),
    named(
        "compile/recompile-optimizer-parameter-shapes",
        "a guard on a parameter",
        limit(
            "1/7: tensor 'p' size mismatch at index 0. expected 64, actual 32. Guard failed on a parameter, consider using "
            "torch._dynamo.config.force_parameter_static_shapes = False to allow dynamism on parameters."
        ),
    ),
    negative(
        "compile/recompile-optimizer-parameter-shapes",
        "a folder that is called like an optimizer",
        limit("0/7: " + size(900), function="'forward' (/home/adam/muon/model/block.py:20)"),
        instead="compile/recompile-dynamic-shape",
    ),
    named("compile/recompile-integer-argument", "max_seqlen", limit("0/7: L['max_seqlen'] == 871")),
    named(
        "compile/recompile-integer-argument",
        "FlexAttention without a reason",
        "torch._dynamo hit recompile_limit using FlexAttention backend",
        "possible",
    ),
    named(
        "compile/recompile-integer-argument",
        "the warning cut to its end",
        "   function: 'forward' (/w/model.py:12)\n   last reason: 0/7: L['max_seqlen'] == 871",
        "established",
    ),
    named(
        "compile/recompile-integer-argument",
        "its last line, torch 2.1",
        "torch._dynamo.convert_frame: [WARNING]    reasons:  L['max_seqlen'] == 871",
        "established",
    ),
    negative(
        "compile/recompile-integer-argument",
        "an integer of a module",
        limit("0/7: self.layer_idx == 7"),
        instead="compile/recompile-per-layer-attribute",
    ),
    named(
        "compile/recompile-grad-or-train-mode-toggle",
        "requires_grad",
        recompiles(*["tensor 'L['x']' requires_grad mismatch. expected requires_grad=1"] * 5),
    ),
    named(
        "compile/recompile-grad-or-train-mode-toggle",
        "the warning cut to its last line",
        "W1129 15:53:51.312000 9100 torch/_dynamo/convert_frame.py:906] [0/8]    last reason: 0/7: GLOBAL_STATE changed: grad_mode",
        "established",
    ),
    negative(
        "compile/recompile-grad-or-train-mode-toggle",
        "train and eval",
        recompiles("GLOBAL_STATE changed: grad_mode"),
    ),
    named(
        "compile/recompile-limit-reached",
        "for a reason that no rule knows",
        limit("0/7: ___check_type_id(L['x'], 94)"),
    ),
    named(
        "compile/recompile-async-collective-tensor",
        "the guard of torch 2.13",
        recompiles(
            "___check_type_id(x, 94541190161504), type=<class 'torch.distributed._functional_collectives."
            "AsyncCollectiveTensor'>  # def f(x): return x * 2 + 1  # w/model.py:6 in f (HINT: type AsyncCollectiveTensor)"
        ),
        "established",
    ),
    named(
        "compile/recompile-async-collective-tensor",
        "the other direction, at the limit",
        limit(
            "0/0: expected type of 'L['x']' to be a tensor type, ' but found <class 'torch.distributed."
            "_functional_collectives.AsyncCollectiveTensor'>"
        ),
        "established",
    ),
    negative(
        "compile/recompile-async-collective-tensor",
        "another class of tensor",
        limit("0/0: ___check_type_id(x, 94541190161504), type=<class 'torch.nn.parameter.Parameter'>"),
        instead="compile/recompile-limit-reached",
    ),
    negative("compile/recompile-limit-reached", "before the limit", recompiles(size(256), size(300))),
    named(
        "compile/recompile-shared-code-object",
        "policy and reference",
        limit("0/7: tensor 'x' requires_grad mismatch. expected requires_grad=1")
        + "\nUserWarning: ref_model and policy_model share one class\nUserWarning: reward_model shares it too",
        "likely",
    ),
    negative(
        "compile/recompile-shared-code-object",
        "one model",
        limit("0/7: tensor 'x' requires_grad mismatch. expected requires_grad=1"),
        instead="compile/recompile-grad-or-train-mode-toggle",
    ),
    named(
        "compile/recompile-fsdp1-parameter-state",
        "the wrapper in the guard",
        limit("0/7: ___check_obj_id(L['self']._fsdp_wrapped_module._parameters['weight'], 1405)"),
        "likely",
    ),
    negative(
        "compile/recompile-fsdp1-parameter-state",
        "another object",
        limit("0/7: ___check_obj_id(self._modules['attn'].processor, 1405)"),
        instead="compile/recompile-per-layer-attribute",
    ),
    named(
        "compile/accelerate-launch-forces-static-shapes",
        "the launcher in the traceback",
        limit("0/7: " + size(900))
        + "\n"
        + traceback(
            (f"{SITE}/accelerate/commands/launch.py", "simple_launcher(args)"),
            error="subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
        ),
        "likely",
    ),
    negative(
        "compile/accelerate-launch-forces-static-shapes",
        "torchrun",
        limit("0/7: " + size(900)),
        instead="compile/recompile-dynamic-shape",
    ),
    named(
        "compile/cudagraph-rerecord-per-shape",
        "torch 2.13",
        "UserWarning: CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. Recording too "
        "many CUDAGraphs may lead to extra overhead. We have observed 51 distinct sizes. Please consider the following "
        "options for better performance: a) padding inputs to a few fixed number of shapes;",
    ),
    negative(
        "compile/cudagraph-rerecord-per-shape",
        "a handful of sizes",
        "UserWarning: CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. Recording too "
        "many CUDAGraphs may lead to extra overhead. We have observed 4 distinct sizes.",
    ),
]

OTHERS = [
    named(
        "compile/fsdp1-data-assignment-across-dtypes",
        "frames of FSDP",
        """
        torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node with fake tensors: call_method set_(*(FakeTensor(..., size=(64,)), FakeTensor(..., size=(64,), dtype=torch.bfloat16)), **{}): got RuntimeError('Could not set tensor of type c10::BFloat16 to a tensor of type float')

        from user code:
           File "/opt/conda/lib/python3.11/site-packages/torch/distributed/fsdp/_flat_param.py", line 1342, in init_flat_param_attributes
            flat_param.data = flat_param._mp_shard
        """,
    ),
    negative(
        "compile/fsdp1-data-assignment-across-dtypes",
        "another failure under fake tensors",
        "torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node with fake tensors: call_function addmm: got "
        "RuntimeError('a and b must have same reduction dim, but got [3, 3] X [2, 2].')",
    ),
    named(
        "compile/data-parallel-wrapper-order",
        "prepared twice",
        "ValueError: FSDP auto wrapping requires modules to not already have FSDP applied but found model.layers.0 in\n"
        "OptimizedModule(",
    ),
    negative(
        "compile/data-parallel-wrapper-order",
        "another argument of wrapping",
        "ValueError: auto_wrap_policy should be a callable",
    ),
    named(
        "compile/compiled-autograd-with-fsdp",
        "frames of the compiler",
        traceback(
            ("train.py", "loss.backward()"),
            (f"{SITE}/torch/_dynamo/compiled_autograd.py", "return compiled_fn(inputs, sizes, scalars, hooks)"),
            error="RuntimeError: Final callbacks can only be installed during backward pass.",
        ),
    ),
    named(
        "compile/compiled-autograd-with-fsdp",
        "alone",
        "RuntimeError: Final callbacks can only be installed during backward pass.",
        "likely",
    ),
    negative(
        "compile/compiled-autograd-with-fsdp",
        "a job that queues callbacks itself",
        traceback(
            ("train.py", "Variable._execution_engine.queue_callback(done)"),
            error="RuntimeError: Final callbacks can only be installed during backward pass.",
        ),
    ),
    named(
        "compile/ddp-optimizer-higher-order-op",
        "in a wrapper",
        "torch._dynamo.exc.BackendCompilerFailed: backend='compile_fn' raised:\nNotImplementedError: DDPOptimizer backend: "
        "Found a higher order op in the graph. This is not supported. Please turn off DDP optimizer using "
        "torch._dynamo.config.optimize_ddp=False. Note that this can cause performance degradation.",
    ),
    negative(
        "compile/ddp-optimizer-higher-order-op",
        "another refusal",
        "torch._dynamo.exc.BackendCompilerFailed: backend='compile_fn' raised:\nAssertionError: no fake mode",
    ),
    named(
        "compile/orig-mod-prefix-in-checkpoint",
        "strict load",
        'RuntimeError: Error(s) in loading state_dict for GPT:\n\tMissing key(s) in state_dict: "transformer.wte.weight". \n\t'
        'Unexpected key(s) in state_dict: "_orig_mod.transformer.wte.weight", "_orig_mod.lm_head.weight". ',
    ),
    named(
        "compile/orig-mod-prefix-in-checkpoint",
        "a loader that is not strict",
        "Some weights of the model checkpoint at ./out were not used when initializing LlamaForCausalLM: "
        "['_orig_mod.model.embed_tokens.weight', '_orig_mod.model.norm.weight']",
    ),
    named(
        "compile/orig-mod-prefix-in-checkpoint",
        "nested wrappers",
        'RuntimeError: Error(s) in loading state_dict for DDP:\n\tUnexpected key(s) in state_dict: "module._orig_mod.conv.weight".',
    ),
    named(
        "compile/orig-mod-prefix-in-checkpoint",
        "one key",
        "KeyError: '_orig_mod.lm_head.weight'",
        "likely",
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "both sides carry it",
        'RuntimeError: Error(s) in loading state_dict for OptimizedModule:\n\tMissing key(s) in state_dict: "_orig_mod.head.bias". '
        '\n\tUnexpected key(s) in state_dict: "_orig_mod.old_head.bias". ',
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "a shape is wrong",
        "RuntimeError: Error(s) in loading state_dict for OptimizedModule:\n\tsize mismatch for _orig_mod.lm_head.weight: copying a "
        "param with shape torch.Size([50257, 768]) from checkpoint, the shape in current model is torch.Size([50304, 768]).",
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "the name in a traceback",
        traceback(
            ("train.py", "logits = model._orig_mod.forward(x)"),
            ("/w/model.py", "return self._orig_mod.head(x)"),
            error="KeyError: 'labels'",
        ),
    ),
    named(
        "compile/cudagraph-output-overwritten",
        "an output",
        "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack "
        'trace: File "/w/model.py", line 7, in forward\n    return self.f(x). To prevent overwriting, clone the tensor outside '
        "of torch.compile() or call torch.compiler.cudagraph_mark_step_begin() before each model invocation.",
    ),
    named(
        "compile/cudagraph-output-overwritten",
        "a gradient",
        "RuntimeError: Error: accessing gradient tensor output of CUDAGraphs that has been overwritten by a subsequent run.",
    ),
    negative(
        "compile/cudagraph-output-overwritten",
        "a graph that is not captured",
        "skipping cudagraphs due to mutated inputs (1 instances)",
    ),
    named(
        "compile/triton-shared-memory-limit",
        "triton 3",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. "
        "Reducing block sizes or `num_stages` may help.",
    ),
    named(
        "compile/triton-shared-memory-limit",
        "behind Inductor",
        "torch._inductor.exc.InductorError: RuntimeError: No valid triton configs. OutOfMemoryError: out of resource: "
        "triton_tem_fused_flex_attention_backward_4 Required: 163840  Hardware limit: 101376 Reducing block sizes or "
        "`num_stages` may help.",
    ),
    negative(
        "compile/triton-shared-memory-limit",
        "device memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    ),
    named(
        "compile/triton-dtype-unsupported",
        "fp8 on Ampere",
        'triton.compiler.errors.CompilationError: at 1:0:\ndef kernel(\n^\nValueError("type fp8e4nv not supported in this '
        "architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')\")",
    ),
    named(
        "compile/triton-dtype-unsupported",
        "ptxas",
        "ptxas /tmp/tmpz1.ptx, line 55; error   : Feature 'cvt.rn.bf16.f32' requires .target sm_80 or higher\nptxas fatal   : "
        "Ptx assembly aborted due to errors",
    ),
    named(
        "compile/triton-dtype-unsupported",
        "skipped with a warning",
        "UserWarning: Tesla V100-SXM2-32GB does not support bfloat16 compilation natively, skipping",
    ),
    negative(
        "compile/triton-dtype-unsupported",
        "a feature that is no dtype",
        "ptxas /tmp/tmpz1.ptx, line 55; error   : Feature 'cp.async' requires .target sm_80 or higher",
    ),
    named(
        "compile/inductor-cpp-codegen-failure",
        "the code is at fault",
        "torch._inductor.exc.InductorError: CppCompileError: C++ compile error\n\nCommand:\ng++ /tmp/torchinductor/cx.cpp -O3 "
        "-fopenmp\n\nOutput:\n/tmp/torchinductor/cx.cpp:21:49: error: no matching function for call to 'max_propagate_nan'",
    ),
    negative(
        "compile/inductor-cpp-codegen-failure",
        "a header is missing",
        "torch._inductor.exc.InductorError: CppCompileError: C++ compile error\n\nCommand:\ng++ /tmp/torchinductor/cx.cpp -O3 "
        "-fopenmp\n\nOutput:\n/tmp/torchinductor/cx.cpp:1:10: fatal error: Python.h: No such file or directory",
        instead="environment/cxx-compiler-missing-or-too-old",
    ),
    named(
        "compile/cache-race-between-ranks",
        "another cache folder",
        "[rank3]: FileNotFoundError: [Errno 2] No such file or directory: "
        "'/home/user/.triton/cache/5eba/kernel.ptx.tmp.pid_93828_100098'",
    ),
    named(
        "compile/cache-race-between-ranks",
        "Triton 3.1 and newer, whose temporary folder is refused to go",
        "[rank1]: OSError: [Errno 16] Device or resource busy: '/nfs/user/.triton/cache/5EBA/tmp.pid_77_1f0c'",
        "established",
    ),
    named(
        "compile/cache-race-between-ranks",
        "a cache folder of its own name",
        "[rank6]: torch._inductor.exc.InductorError: FileNotFoundError: [Errno 2] No such file or directory: "
        "'/home/user/triton_cache_255441/E5DA/triton_red_fused_arange_0.hsaco'",
        "likely",
    ),
    negative(
        "compile/cache-race-between-ranks",
        "another folder that is not empty",
        "OSError: [Errno 39] Directory not empty: '/data/checkpoints/tmp'",
    ),
    named(
        "compile/cache-race-between-ranks",
        "half written",
        traceback(
            ("train.py", "model(x)"),
            (f"{SITE}/torch/_inductor/runtime/triton_heuristics.py", "best_config = json.loads(fd.read())"),
            error="json.decoder.JSONDecodeError: Extra data: line 1 column 211 (char 210)",
        ),
        "likely",
    ),
    negative(
        "compile/cache-race-between-ranks",
        "another file of JSON",
        traceback(
            ("train.py", "config = json.load(open('config.json'))"),
            error="json.decoder.JSONDecodeError: Extra data: line 1 column 211 (char 210)",
        ),
    ),
    negative(
        "compile/cache-race-between-ranks",
        "another file that is not there",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.tmp.1'",
    ),
    named(
        "compile/aot-partitioner-invalid-node",
        "in a wrapper",
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nAssertionError: Node tangents_1 was invalid, but "
        "is output",
    ),
    negative("compile/aot-partitioner-invalid-node", "a node of a cluster", "ValueError: Node gpu-07 was invalid"),
]

CASES = [*BREAKS, *RECOMPILES, *OTHERS]
