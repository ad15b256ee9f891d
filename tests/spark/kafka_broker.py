"""A real Kafka broker of one node on loopback, for tests, from the jars that `make kafka` copies."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from catchment.spark.java import java_home

ARTIFACTS = Path(os.environ.get("CATCHMENT_KAFKA") or Path.home() / ".cache" / "catchment" / "kafka")
"""Where the jars are: a folder `connector` and a folder `broker`."""

PRESENT = all(list((ARTIFACTS / part).glob("*.jar")) for part in ("connector", "broker"))

_CLUSTER = "catchmentAAAAAAAAAAAAA"  # any 16 bytes in base64
_START_SECONDS = 60
_STOP_SECONDS = 15


@contextmanager
def broker() -> Iterator[str]:
    """Start a broker with its own folder on free ports; gives `host:port`, and stops it at the end."""
    with tempfile.TemporaryDirectory(prefix="catchment-kafka-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        port, controller = _free_ports(2)
        properties = folder / "server.properties"
        properties.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
            f"log.dirs={folder / 'records'}\n"
            "num.partitions=2\n"
            "offsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\n"
            "group.initial.rebalance.delay.ms=0\n"
            "message.max.bytes=20000000\n"
        )
        java = [str(java_home() / "bin" / "java"), "-Xmx384m", "-XX:+UseSerialGC", "-cp", f"{ARTIFACTS / 'broker'}/*"]
        log_path = folder / "broker.log"
        with log_path.open("wb") as log:
            store = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
            subprocess.run(store, check=True, timeout=_START_SECONDS, stdout=log, stderr=log)
            serve = [*java, "kafka.Kafka", str(properties)]
            process = subprocess.Popen(serve, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait_until_open(port, process, log_path)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _wait_until_open(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not start:\n{log.read_text(errors='replace')}") from None
            time.sleep(0.1)
