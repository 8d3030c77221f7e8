"""The record: the typed result of one run. `record.json` is this value in JSON, schema_version 1.

Counts are of one optimizer step unless they say otherwise; shares and fractions lie in [0, 1]; `None` means
"not observed", never "zero". Values that differ between ranks are those of the lowest rank that reported, and
`ranks` says who reported.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from trueup.schema.finding import Finding
from trueup.schema.layer import Layer

SCHEMA_VERSION = 1


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    code: int | None = None
    """Exit code as a shell would give it (128 + signal for a death by signal)."""
    signal: str | None = None
    reason: str | None = None
    """`timeout`, `steps reached`, `interrupted`, or the last line of the fatal exception."""


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """A loop over a DataLoader in which optimizer steps were made."""

    batches: int | None = None
    """That the loader gave until it had no more; None when it never came to that."""
    steps: int | None = None
    """Optimizer steps of the rank until then."""
    at: str | None = None
    number: int = 0
    """From 1: the how-manieth loop of the rank that began at this place."""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    rank: int
    local_rank: int | None = None
    world_size: int | None = None
    host: str = ""
    pid: int = 0
    exit: Exit = Exit()
    error: str | None = None
    """Type and message of the uncaught exception with its chain, innermost user line last."""
    frames: tuple[str, ...] = ()
    """`file:line` of the innermost frames of that exception, the last one first."""
    trained: bool = False
    """True when the process made an optimizer step or a backward pass."""
    steps: int = 0
    process_group: str | None = None
    """Backend of torch.distributed's default group; None when never initialised."""
    stack: str | None = None
    """Python stacks of the process when a timeout ended the run."""
    loops: tuple[Loop, ...] = ()
    """The newest eight loops over a DataLoader in which it trained, in a job of several ranks; none of a rank
    that began more than were told of."""


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """One event in which a layer of the stack was applied or changed."""

    layer: Layer
    event: str
    module: str | None = None
    at: str | None = None
    detail: dict[str, Any] = {}
    rank: int = 0


class Recompile(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    at: str | None = None
    """The user's line under which the recompile happened."""
    count: int = 1
    function: str | None = None
    """Compiled function, `name (file:line)`."""
    step: int | None = None
    """Optimizer step, from 1, in which this reason was first seen."""
    within: str | None = None
    """`optimizer step` when the compiling call came from an optimizer's step."""


class GraphBreak(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    at: str | None = None
    count: int = 1
    kind: str | None = None
    """Dynamo's graph-break type."""
    frame: str | None = None
    """`file:line` at which Dynamo stopped; a library's line where `at` is the user's."""
    inside: str | None = None
    """Higher-order operator that was being traced, `torch.utils.checkpoint.checkpoint`, ...

    `a higher-order operator` where Dynamo does not name it.
    """
    explanation: str | None = None
    """Dynamo's own explanation, which names the function or operator."""


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    total: int = 0
    compiled: int = 0
    names: tuple[str, ...] = ()
    """Class names of the blocks."""


class LimitHit(msgspec.Struct, frozen=True, kw_only=True):
    function: str
    limit: str
    """`recompile_limit` or `accumulated_recompile_limit`."""
    reason: str | None = None
    """The last guard that failed."""


class CapturedGraph(msgspec.Struct, frozen=True, kw_only=True):
    frame: int
    """Number of the frame in its process, from 0, by which TORCH_COMPILE_OVERRIDE_BACKENDS names its graphs."""
    function: str | None = None
    """`name (file:line)`."""
    at: str | None = None
    """The user's line under which it was compiled."""


class Compile(msgspec.Struct, frozen=True, kw_only=True):
    fraction: float | None = None
    """Share of parameter-owning modules' parameters that ran inside compiled graphs, in the step that speaks.

    That is, of the steps sampled since the last compile, the one with the least coverage: what runs compiled may
    depend on the sequence length.
    """
    blocks: Blocks = Blocks()
    graphs: int = 0
    captured: tuple[CapturedGraph, ...] = ()
    """Frames of which Dynamo captured graphs, in the order of their numbers."""
    applied: dict[str, int] = {}
    """Subsystem of the compiler → passes, decompositions or lowerings that it came to, where torch's CompilerBisector
    is on (TORCH_BISECT_BACKEND)."""
    last_applied: str | None = None
    """The last one that TORCH_BISECT_MAX left on."""
    regions_per_step: int | None = None
    """Calls of compiled regions in the last sampled step, by the profiler."""
    recompiles: tuple[Recompile, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    limits: tuple[LimitHit, ...] = ()
    failures: tuple[str, ...] = ()
    frames: int = 0
    """Frames that Dynamo started to compile."""
    checkpoints_in_graph: int = 0
    """Activation checkpoints that Dynamo captured as one operator inside its graphs."""
    seconds: float | None = None
    cache_hits: int = 0
    cache_misses: int = 0
    eager_modules: dict[str, int] = {}
    """Class → calls of modules that own parameters and ran outside every graph in the last sampled step."""
    root_eager: bool | None = None
    """True when the outermost module's own forward ran as plain Python in the last sampled step."""
    evaluated_eager: int | None = None
    """Blocks (models, where there are no blocks) that trained compiled and were evaluated eager in a sampled step."""
    entries: tuple[str, ...] = ()
    """Classes or functions handed to torch.compile or Module.compile."""
    holders: int | None = None
    """Modules that still hold a compiled call at the last look at the model."""


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Name from the table in `trueup/attention`: `sdpa-flash-cpu`, `sdpa-math`, `eager`, ..."""
    calls: int
    share: float
    op: str | None = None
    """The operator or device kernel that was seen."""


class Leakage(msgspec.Struct, frozen=True, kw_only=True):
    """What changed at later documents of packed rows when only the tokens of an earlier one were changed.

    Rows and documents are numbered from 1. Logits, unless `measured_at` says otherwise.
    """

    verdict: Literal["leak", "none", "rounding", "not packed", "not probed"]
    """`rounding`: no more than sums in another order account for. `none`: exactly 0."""
    reason: str | None = None
    """Why nothing was measured."""
    change: float | None = None
    """Largest change of a logit of a later document."""
    scale: float | None = None
    """Largest logit."""
    noise: float | None = None
    """Largest difference between two computations of the same batch."""
    source: int | None = None
    """Document that was changed."""
    target: int | None = None
    """Document that changed most; None where none did."""
    row: int | None = None
    other_rows: float | None = None
    """Largest change in rows of which no token was changed; None where there were none."""
    documents: int | None = None
    rows: int | None = None
    positions: int | None = None
    """Tokens of a row."""
    dtype: str | None = None
    seen_in: str | None = None
    """Argument of the model that parts the documents."""
    measured_at: str | None = None
    """`logits`, or `output of LlamaDecoderLayer` where the model gives none."""
    every: int = 1
    """Every how-manieth column of the vocabulary was compared."""
    ranks: tuple[int, ...] = ()
    """Ranks that told a result of this kind."""


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that ran in place of the one that was asked for, by a rule."""

    requested: str
    actual: str
    reason: str
    model: str | None = None
    """Its class."""
    ranks: tuple[int, ...] = ()


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Calls in the forward passes of training: neither evaluations nor what a checkpoint runs again is counted."""

    requested: str | None = None
    kernels: tuple[Kernel, ...] = ()
    fused_fraction: float | None = None
    """Share of attention calls that ran a fused kernel in the sampled steps."""
    masks: dict[str, int] = {}
    """What the attention masks of the sampled calls were: `none`, `all-ones`, `causal`, `other`, ... → calls."""
    toggles: dict[str, bool] = {}
    """Global SDPA switches at the last sample: `flash`, `mem_efficient`, `math`, `cudnn`."""
    given_mask: str | None = None
    """What the mask given to a sampled call of the model was, before the model made its own of it: `all-ones`, ..."""
    packed: bool | None = None
    """True when the position ids of a sampled model call restarted within a row."""
    boundaries: bool | None = None
    """True when a sampled call was given document boundaries (`cu_seqlens`, a block mask)."""
    cache: bool | None = None
    """True when attention of a sampled training call filled a key/value cache."""
    padding: str | None = None
    """Side on which rows of a sampled batch were padded: `left`, `right`, `both`."""
    padding_seen_in: str | None = None
    """Name of the argument that held the padding mask, or `token ids`."""
    unmasked_padded: dict[str, int] = {}
    """Attention calls over padded rows that were given no mask: `no mask`, `no mask causal` → calls."""
    sdpa_calls: dict[str, int] = {}
    """What scaled_dot_product_attention was given: `masked`, `no mask causal dropout`, ... → calls."""
    leakage: Leakage | None = None
    """Of `--probe packing`: the rank with the largest change; None when the probe was not asked for."""
    fallbacks: tuple[Fallback, ...] = ()


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank exchanged with others in one steady sampled step."""

    step: int
    backwards: int = 0
    reducing_backwards: int = 0
    """Backward passes in which a reduction over ranks began."""
    collectives: dict[str, int] = {}
    """Collective → calls."""
    elements: int | None = None
    """Elements of the tensors that they were given."""
    wrapper_forwards: int | None = None
    """Calls of DistributedDataParallel's own forward as plain Python."""
    without_sync: int = 0
    """Calls that suspend the reduction of gradients: no_sync() and alike."""


class Sharding(msgspec.Struct, frozen=True, kw_only=True):
    strategy: str | None = None
    """`FSDP2`, `HSDP`, `FSDP1/FULL_SHARD`, `DDP`, `ZeRO-3`, `TP`, ... or `none`; `replicated` where `sharding=off`
    leaves whole what FSDP would shard."""
    fraction: float | None = None
    """Share of parameter bytes really split over ranks."""
    units: int = 0
    replicas: int | None = None
    """Ranks that hold the same shard."""
    collectives: dict[str, int] = {}
    """Collective → calls in the last sampled step."""
    reducing_backwards: int | None = None
    """Backward passes of the last sampled step in which gradients were reduced over ranks."""
    gathers_per_backward: float | None = None
    """All-gathers within a backward pass of the last sampled step, on average."""
    exchanges: tuple[Exchange, ...] = ()
    """The steady sampled steps of the lead rank whose operators were recorded."""
    trainable_elements: int | None = None
    """Elements of the parameters that require a gradient, at the last look at the model."""


class Checkpointing(msgspec.Struct, frozen=True, kw_only=True):
    fraction: float | None = None
    """Share of blocks whose forward ran again during backward, or was captured as a checkpoint in a graph."""
    reentrant: bool | None = None
    calls: int = 0
    random_ops: int | None = None
    """Operators that drew random numbers in the last sampled step."""
    random_again: int | None = None
    """Those of them that ran within a backward pass: drawn again by the recomputation of a checkpoint."""
    calls_in_training_mode: int | None = None
    """Checkpoint calls of an earlier sampled step in training mode, where the last one, in eval mode, made none."""
    without_rng_state: int | None = None
    """Checkpoint calls of the last sampled step that do not preserve the random state."""


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    matmul: dict[str, float] = {}
    """dtype → share of matrix-multiply FLOPs in the sampled steps."""
    parameters: dict[str, float] = {}
    """dtype → share of parameter elements."""
    gradients: dict[str, float] = {}
    optimizer_state: dict[str, float] = {}
    reduce_dtype: str | None = None
    unchanged_share: float | None = None
    """Share of probed weights with a non-zero gradient that an optimizer step left bit-equal."""


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    trainable_fraction: float | None = None
    names: tuple[str, ...] = ()
    adapter_parameters: int = 0
    adapter_trainable: int = 0
    """How many adapter parameters require a gradient."""
    adapter_changed: int | None = None
    """How many adapter parameters changed in a sampled step."""


class Logits(msgspec.Struct, frozen=True, kw_only=True):
    """Scores over the vocabulary that a training step held at once, at the start of its backward pass."""

    positions: int
    """Tokens whose scores were whole tensors at once."""
    vocabulary: int
    copies: dict[str, str] = {}
    """`head`, `log_softmax`, `gradient` → dtype of that copy."""
    bytes: int = 0
    """Of all copies."""
    at: str | None = None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    peak_bytes: int | None = None
    """Highest over ranks."""
    source: str | None = None
    """`cuda allocator` or `resident set`."""
    per_rank: dict[str, int] = {}
    logits: Logits | None = None
    """The largest of the steady sampled steps of the lead rank."""
    loaded_before_sharding: dict[str, int] = {}
    """Rank → bytes of weights in host memory once they were loaded, of ranks that sharded the model after that."""
    loaded_total: int | None = None
    """Bytes of the whole model that they loaded."""
    loaded_at: str | None = None


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """What the optimizer really trains; counts of parameter tensors."""

    parameters: int = 0
    trainable: int = 0
    in_no_optimizer: tuple[str, ...] = ()
    """Names of parameters that require a gradient and are in no optimizer."""
    in_no_optimizer_count: int | None = None
    """How many they are, where not all are named."""
    not_of_model: int = 0
    """Optimizer parameters that belong to no model seen."""
    without_gradient: tuple[str, ...] = ()
    """Names of trainable parameters that had no gradient at the sampled optimizer steps."""
    without_gradient_count: int | None = None
    """How many they are, where not all are named."""
    unchanged: tuple[str, ...] = ()
    """Names of parameters that had a gradient and did not change over a sampled optimizer step."""
    optimizers: tuple[str, ...] = ()
    accumulation: int | None = None
    """Backward passes per optimizer step."""
    observed: bool = False
    models: tuple[str, ...] = ()
    """Class of each outermost model seen, one entry per model."""
    training_mode: bool | None = None
    """False when the outermost model was in eval mode in the last sampled step."""
    tied_requested: bool | None = None
    """What the model's configuration says about tied input and output embeddings."""
    tied: bool | None = None
    """True when input and output embeddings are one parameter."""
    shared: int | None = None
    """Parameters that the model holds under more than one name."""


class Actual(msgspec.Struct, frozen=True, kw_only=True):
    compile: Compile = Compile()
    attention: Attention = Attention()
    sharding: Sharding = Sharding()
    checkpointing: Checkpointing = Checkpointing()
    precision: Precision = Precision()
    adapter: Adapter = Adapter()
    memory: Memory = Memory()
    training: Training = Training()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    requested_world_size: int | None = None
    """Processes asked for, from the launcher's own arguments and configuration."""
    world_size: int | None = None
    """Processes that trained."""
    launchers: tuple[str, ...] = ()
    """`torchrun`, `accelerate launch`, ..."""
    source: str | None = None
    """Where the requested number stands."""


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """How a few elements of the trained parameters that a rank holds have moved since before the first step."""

    step: int
    rank: int
    changes: tuple[float, ...]


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    count: int = 0
    seconds: tuple[float, ...] = ()
    losses: tuple[float | None, ...] = ()
    grad_norms: tuple[float | None, ...] = ()
    tokens: tuple[int | None, ...] = ()
    stride: int = 1
    """Every how-manieth step is kept in the lists of a long job."""
    not_finite: tuple[int, ...] = ()
    """Numbers, from 1, of the kept steps whose loss was NaN or infinite; in `losses` they are null."""
    drifts: tuple[Drift, ...] = ()
    """Of the first ranks, in runs that were made to be compared."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One observed step."""

    step: int
    rank: int = 0
    seconds: float | None = None
    compiled_during: bool = False
    """True when something was compiled within the step, so that it is not a steady one."""
    sequence_length: int | None = None
    blocks_compiled: int | None = None
    blocks_total: int | None = None
    fraction: float | None = None
    kernels: dict[str, int] = {}


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something the record lacks, or that was observed about the observation itself."""

    what: str
    ranks: tuple[int, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int = SCHEMA_VERSION
    trueup_version: str = ""
    command: tuple[str, ...] = ()
    variant: dict[str, Any] = {}
    started: str | None = None
    duration_s: float | None = None
    exit: Exit = Exit()
    environment: dict[str, Any] = {}
    """`python`, `torch`, `packages` {name: version}, `devices`, `variables` (only names that touch the stack)."""
    launch: Launch = Launch()
    ranks: tuple[Rank, ...] = ()
    order: tuple[Applied, ...] = ()
    requested: dict[str, dict[str, Any]] = {}
    actual: Actual = Actual()
    steps: Steps = Steps()
    samples: tuple[Sample, ...] = ()
    notes: tuple[Note, ...] = ()
    findings: tuple[Finding, ...] = ()
    parts: dict[str, tuple[str, ...]] = {}
    """Layer → its parts, in their order, in a run where it was forced in some of them alone: names of modules, shapes
    of the batches."""
    unknown_fields: int = 0
    """Fields of a newer trueup that this one did not understand."""


def unchanged(asked: str) -> str:
    """How a note begins that says that what a variant asked for changed nothing."""
    return f"{asked} was asked for and nothing was changed"


class RecordError(ValueError):
    """A text that is no record."""


def record_to_json(record: Record) -> str:
    """The record as indented JSON text."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1).decode()


def record_from_json(text: str | bytes) -> Record:
    """Read a record, also of a newer schema: fields this version does not know are dropped and counted."""
    try:
        raw = msgspec.json.decode(text)
        record = msgspec.convert(raw, Record)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RecordError(f"not a trueup record: {error}") from error
    dropped = unknown_fields(raw, msgspec.to_builtins(record))
    return msgspec.structs.replace(record, unknown_fields=record.unknown_fields + dropped)


def unknown_fields(raw: Any, known: Any) -> int:
    """Count the keys of `raw` that are absent from `known`, a value of the same shape, at every depth."""
    if isinstance(raw, dict) and isinstance(known, dict):
        return sum(unknown_fields(value, known[key]) if key in known else 1 for key, value in raw.items())
    if isinstance(raw, list) and isinstance(known, (list, tuple)):
        return sum(unknown_fields(ours, theirs) for ours, theirs in zip(raw, known, strict=False))
    return 0


def record_json_schema() -> dict[str, Any]:
    """The JSON Schema of `record.json`."""
    return msgspec.json.schema(Record)
