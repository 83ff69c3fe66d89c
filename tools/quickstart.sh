#!/usr/bin/env bash
# From a fresh clone to an answer: installs what is missing, builds, and answers a prompt with the default model.
#   tools/quickstart.sh "What is 23 + 58?"
# Further arguments go to `colibri run` as they are. The answer alone is written to standard output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -gt 0 ] || set -- "Who are you?"
tools/install_deps.sh
{
  # The build says what it does to a person who waits, and only errors to a log.
  cmake --preset release -DCOLIBRI_BUILD_TESTS=OFF --log-level=WARNING
  if [ -t 2 ]; then cmake --build --preset release; else cmake --build --preset release -- --quiet; fi
} >&2
exec build/release/bin/colibri run "$@"
