#!/usr/bin/env bash
# From a fresh clone to an answer: installs what is missing, builds, and answers a prompt with the default model.
#   tools/quickstart.sh "What is 23 + 58?"
# All arguments go to `colibri run` as they are. The answer alone is written to standard output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -gt 0 ] || set -- "Who are you?"
tools/install_deps.sh
# A person who waits sees the build go on; a log gets its errors alone.
quiet=()
[ -t 2 ] || quiet=(-- --quiet)
{
  cmake --preset release -DCOLIBRI_BUILD_TESTS=OFF --log-level=WARNING
  cmake --build --preset release --target colibri_program ${quiet[@]+"${quiet[@]}"}
} >&2
exec build/release/bin/colibri run "$@"
