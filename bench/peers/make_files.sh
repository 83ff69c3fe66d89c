#!/usr/bin/env bash
# Writes the files of the README's table into a folder, those that are not there yet: random weights in real sizes (tools/make_moe.py).
#
# usage: bench/peers/make_files.sh FOLDER [NAME ...]
#
# Names are SHAPE-TYPE, such as olmoe-q4_0; unless said, all of the table's: 38 GB. Prints their paths.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ $# -lt 1 ]; then
  echo "usage: bench/peers/make_files.sh FOLDER [NAME ...]" >&2
  exit 2
fi
folder=$1
shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  names=(olmoe-q4_0 olmoe-q4_k olmoe-q8_0 qwen30-q4_0 qwen30-q4_k qwen30-bf16 gpt-oss-mxfp4)
fi
mkdir -p "$folder"
for name in "${names[@]}"; do
  path=$folder/$name.gguf
  if [ ! -e "$path" ]; then
    "$repository/build/peers/bin/python" "$repository/tools/make_moe.py" "${name%-*}" "${name##*-}" "$path" >&2
  fi
  echo "$path"
done
