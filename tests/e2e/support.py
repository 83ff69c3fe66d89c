"""What the end-to-end tests share: running the program, finding the test data, reading safetensors."""

import array
import json
import os
import pathlib
import struct
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["COLIBRI_PROGRAM"]
NANO = SOURCE / "models" / "nano" / "nano-q8_0.gguf"
ASSETS = pathlib.Path(os.environ.get("COLIBRI_ASSETS", SOURCE.parent / "shared"))
TIMEOUT_S = 300

needs_assets = unittest.skipUnless(
    (ASSETS / "goldens").is_dir(),
    "no test assets: set COLIBRI_ASSETS to the folder that holds goldens/")


def colibri(*arguments, stdin="", environment=None, check=None):
    """Runs the program to its end; with `check`, its exit code must be that."""
    env = dict(os.environ, **(environment or {}))
    result = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True,
                            encoding="utf-8", env=env, timeout=TIMEOUT_S)
    if check is not None and result.returncode != check:
        raise AssertionError(f"colibri {' '.join(map(str, arguments))}: exit code {result.returncode}, "
                             f"expected {check}\nstdout: {result.stdout[-2000:]}\nstderr: {result.stderr[-2000:]}")
    return result


_CODES = {"F32": "f", "I64": "q", "I32": "i"}


def read_safetensors(path):
    """{name: (shape, array of values)} of a file with plain types."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = array.array(_CODES[entry["dtype"]])
        values.frombytes(data[8 + length + begin:8 + length + end])
        tensors[name] = (entry["shape"], values)
    return tensors
