#!/usr/bin/env bash
# Cross-compiles for aarch64 and runs the unit and golden tests with an emulator, kernels and goldens also as older CPUs.
# Installs what it needs (as root, or with sudo). Allow an hour on two cores: the engine's tests alone take half of that.
# tools/test_aarch64.sh -LE 'unit|golden' runs the kernels and the goldens of the families alone: minutes.
# COLIBRI_ASSETS names the folder with the big test data, as for tools/test.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${COLIBRI_ASSETS:-}" ] && [ -d ../shared/goldens ]; then COLIBRI_ASSETS=../shared; fi
if [ -n "${COLIBRI_ASSETS:-}" ]; then
  COLIBRI_ASSETS=$(cd "$COLIBRI_ASSETS" && pwd)
  export COLIBRI_ASSETS
fi
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1

tools/install_deps.sh --aarch64
cmake --preset aarch64 -DCOLIBRI_BUILD_TESTS=ON --log-level=WARNING >/dev/null
cmake --build --preset aarch64 -- --quiet
ctest --test-dir build/aarch64 --output-on-failure --no-tests=error -j "$(nproc)" -L 'unit|golden|isa' "$@" </dev/null
