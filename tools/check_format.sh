#!/usr/bin/env bash
# Fails when a tracked C or C++ source is not formatted as .clang-format says. `--fix` formats them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(--dry-run -Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files -z -- '*.h' '*.hpp' '*.cc' '*.cpp' '*.c' | xargs -0 -r -P "$(nproc)" -n 16 clang-format-14 "${mode[@]}"
