"""NCCL, Gloo, the store and their watchdogs."""

from __future__ import annotations

from trueup.logs.marks import mark

MARKS = (
    mark(r"Watchdog caught collective operation timeout", "collective", type="watchdog timeout"),
    mark(r"Exception \(either an error or timeout\) detected by watchdog", "collective", type="watchdog timeout"),
    mark(
        r"Some NCCL operations have failed or timed out|"
        r"To avoid data inconsistency, we are taking the entire process down",
        "collective",
        "cascade",
    ),
    mark(
        r"(?:Received a (?:dump|global) signal|"
        r"Observed flight recorder dump signal|Work WorkNCCL)",
        "collective",
        "cascade",
    ),
    mark(r"Process group watchdog thread terminated with exception", "collective", "cascade", continues=True),
    mark(
        r"[Hh]eartbeat monitor timed out|Watchdog thread .*(?:hang|stuck)|HeartbeatMonitor.*terminat",
        "collective",
        "cascade",
    ),
    mark(
        r"Timeout at NCCL work|Detected mismatch between collectives on ranks|Collectives differ in the following",
        "collective",
        continues=True,
    ),
    mark(
        r"desync debug|Desync detected|ranks that caused the desync|lagging ranks that caused this timeout|"
        r"(?:finished|joined but didn't finish) collective #\d",
        "collective",
        continues=True,
    ),
    mark(
        r"NCCL WARN .*(?:Connection (?:reset|closed|refused)|remote (?:process|peer)|closed by|"
        r"socketProgress|Socket recv failed)",
        "collective",
        "cascade",
        "NCCL WARN",
    ),
    mark(
        r"NCCL WARN (?:NET/Plugin|NET/IB : (?:Unable|Got completion)|Cuda failure 'driver shutting down')",
        "collective",
        "warning",
        "NCCL WARN",
    ),
    mark(r"NCCL WARN\b", "collective", type="NCCL WARN"),
    mark(
        r"^nccl(?:SystemError|InternalError|InvalidUsage|UnhandledCudaError|InvalidArgument):",
        "collective",
        continues=True,
    ),
    mark(r"^ncclRemoteError:", "collective", "cascade", continues=True),
    mark(
        r"\bNCCL [\d.]+ error, nccl\w+|NCCL error in: |NCCL failure ", "collective", type="NCCL error", continues=True
    ),
    mark(r"Duplicate GPU detected", "collective"),
    mark(r"Connection closed by (?:remote )?peer|Connection reset by peer|Broken pipe", "collective", "cascade"),
    mark(
        r"server socket has failed to (?:bind|listen)|EADDRINUSE|[Aa]ddress already in use",
        "collective",
        type="address in use",
    ),
    mark(
        r"client socket has (?:timed out|failed to connect)|Failed to connect to .*remote|"
        r"failed to (?:recv|send).*(?:TCPStore|Connection was likely closed)",
        "collective",
    ),
    mark(
        r"TCPStore.*(?:failed|timed? ?out|closed)|recvValueWithTimeout failed|sendBytes failed|recvValue failed",
        "collective",
        "cascade",
    ),
    mark(
        r"Timed out (?:initializing process group|waiting for clients)|Rendezvous(?:Timeout|Connection|Closed)Error",
        "collective",
    ),
    mark(r"monitoredBarrier|Application timeout caused pair closure", "collective", "cascade"),
)
