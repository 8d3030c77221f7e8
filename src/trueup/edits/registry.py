"""Which change of the user's files stands for which remedy."""

from __future__ import annotations

from trueup.edits import (
    accelerate_yaml,
    attention,
    checkpointing,
    compiling,
    deepspeed_json,
    hydra_overrides,
    launching,
    optimizers,
    precision,
    settings,
    sharding,
    statements,
    torchtitan_toml,
    training_arguments,
)
from trueup.edits.draft import Editor
from trueup.edits.hydra_overrides import ACTOR
from trueup.edits.settings import DYNAMO, FUNCTORCH, INDUCTOR

EDITORS: dict[str, tuple[Editor, ...]] = {
    "disable-kv-cache": (attention.disable_kv_cache,),
    "leak-free-packing": (attention.leak_free_packing,),
    "request-sdpa": (
        hydra_overrides.setting(f"{ACTOR}.model.override_config.attn_implementation", "sdpa"),
        attention.request_sdpa,
    ),
    "restore-sdpa-switches": (attention.restore_switches,),
    "no-output-attentions": (attention.no_output_attentions,),
    "cast-attention-input": (attention.cast_attention_input,),
    "disable-cudnn-sdpa": (settings.line("torch.backends.cuda.enable_cudnn_sdp(False)"),),
    "non-reentrant-checkpoint": (checkpointing.non_reentrant,),
    "preserve-rng-state": (
        torchtitan_toml.setting(
            "activation_checkpoint",
            "preserve_rng_state",
            value=True,
            where=torchtitan_toml.has("activation_checkpoint", "preserve_rng_state"),
        ),
        checkpointing.preserve_rng_state,
    ),
    "no-determinism-check": (checkpointing.no_determinism_check,),
    "no-dynamo-lru-cache": (settings.line("torch._C._dynamo.eval_frame._set_lru_cache(False)"),),
    "deterministic-algorithms": (settings.line("torch.use_deterministic_algorithms(True)"),),
    "autocast-without-cache": (checkpointing.autocast_without_cache,),
    "enable-input-require-grads": (checkpointing.input_gradients,),
    "full-memory-budget": (
        torchtitan_toml.setting(
            "activation_checkpoint",
            "memory_budget",
            value=1.0,
            where=torchtitan_toml.has("activation_checkpoint", "memory_budget"),
        ),
        settings.setting(FUNCTORCH, "activation_memory_budget", "1.0", add=False),
    ),
    "checkpoint-inside-unit": (accelerate_yaml.fsdp("fsdp_activation_checkpointing", True),),
    "train-mode": (statements.train_mode,),
    "unset-accelerate-dynamic": (compiling.dynamic_by_wrong_default,),
    "dynamo-use-dynamic": (accelerate_yaml.setting("dynamo_config", "dynamo_use_dynamic", value=True),),
    "accelerate-regional-compilation": (
        accelerate_yaml.setting("dynamo_config", "dynamo_use_regional_compilation", value=True),
        compiling.regional_by_accelerate,
    ),
    "raise-recompile-limit": (settings.at_least(DYNAMO, "recompile_limit", 64, "cache_size_limit"),),
    "unspecialize-module-integers": (settings.setting(DYNAMO, "allow_unspec_int_on_nn_module", "True"),),
    "ddp-optimizer-off": (settings.setting(DYNAMO, "optimize_ddp", "False"),),
    "dynamic-parameter-shapes": (settings.setting(DYNAMO, "force_parameter_static_shapes", "False"),),
    "capture-scalar-outputs": (settings.setting(DYNAMO, "capture_scalar_outputs", "True"),),
    "compiled-autograd-off": (settings.setting(DYNAMO, "compiled_autograd", "False", add=False),),
    "automatic-dynamic-shapes": (compiling.automatic_dynamic_shapes,),
    "compile-by-wrapper": (compiling.by_wrapper,),
    "compile-in-place": (compiling.in_place,),
    "compile-per-block": (compiling.per_block,),
    "compile-each-block": (
        torchtitan_toml.setting("compile", "enable", value=True, where=torchtitan_toml.has("training", "compile")),
    ),
    "isolate-recompiles": (compiling.option("isolate_recompiles", "True"),),
    "compile-without-inductor": (compiling.option("backend", '"aot_eager"', "mode", "options"),),
    "compile-without-cudagraphs": (compiling.without_cudagraphs,),
    "skip-dynamic-cudagraphs": (
        settings.setting(f"{INDUCTOR}.triton", "cudagraph_skip_dynamic_graphs", "True", loaded=INDUCTOR),
    ),
    "remove-device-hooks": (compiling.without_device_hooks,),
    "move-python-out": (statements.without_print,),
    "remove-break-in-checkpoint": (statements.without_print,),
    "no-scaler": (precision.no_scaler,),
    "fp32-master-weights": (precision.float32_under_autocast,),
    "fp32-trainable-parameters": (precision.float32_trainable,),
    "bf16-without-scaler": (
        accelerate_yaml.setting("mixed_precision", value="bf16"),
        deepspeed_json.settings((("fp16", "enabled"), False), (("bf16", "enabled"), True)),
        training_arguments.setting(bf16=True, fp16=False),
    ),
    "unfreeze-adapters": (optimizers.unfreeze_adapters,),
    "optimizer-after-wrapping": (optimizers.after_wrapping,),
    "add-missing-parameters": (optimizers.after_wrapping, optimizers.add_missing),
    "tie-weights-again": (statements.tie_weights,),
    "ddp-find-unused-parameters": (
        sharding.find_unused_parameters,
        sharding.unused_by_accelerate,
        training_arguments.setting(ddp_find_unused_parameters=True),
    ),
    "wrap-blocks": (accelerate_yaml.layer_class, hydra_overrides.layer_class, sharding.wrap_blocks),
    "shard-each-block": (sharding.shard_blocks,),
    "auto-wrap-policy": (sharding.wrap_policy,),
    "existing-layer-class": (accelerate_yaml.layer_class, hydra_overrides.layer_class, sharding.existing_layer_class),
    "fsdp-use-orig-params": (
        accelerate_yaml.fsdp("fsdp_use_orig_params", True),
        hydra_overrides.setting(f"{ACTOR}.actor.fsdp_config.use_orig_params", True),
        sharding.use_orig_params,
    ),
    "fsdp2": (accelerate_yaml.fsdp("fsdp_version", 2), hydra_overrides.setting(f"{ACTOR}.actor.strategy", "fsdp2")),
    "fsdp-full-shard": (accelerate_yaml.fsdp("fsdp_sharding_strategy", "FULL_SHARD"),),
    "shard-root": (sharding.shard_root,),
    "call-the-wrapper": (sharding.call_the_wrapper,),
    "launch-with-torchrun": (launching.with_torchrun,),
    "drop-last-batch": (training_arguments.setting(dataloader_drop_last=True), sharding.drop_last),
    "zero-stage-2": (deepspeed_json.settings((("zero_optimization", "stage"), 2)),),
    "eval-accumulation-steps": (training_arguments.setting(eval_accumulation_steps=1),),
    "prediction-loss-only": (training_arguments.setting(prediction_loss_only=True),),
    "fused-linear-cross-entropy": (
        hydra_overrides.setting(f"{ACTOR}.model.use_fused_kernels", True),
        training_arguments.setting(use_liger_kernel=True),
    ),
}
"""Remedy → editors, the first that can write the change is taken.

Not here: `fully-shard-on-cpu`, whose permanent form is another structure of the script, and `expandable-segments`, an
environment variable.
"""
