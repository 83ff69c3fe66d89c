#!/usr/bin/env bash
# Runs all tests: installs what they need, then checks the sources and tests five builds. The release build comes last,
# so that the last lines are the summary of its whole suite.
#   tools/test.sh           everything (half an hour at most on two cores)
#   tools/test.sh --quick   the release build's suite alone
# COLIBRI_ASSETS names the folder with the big test data (goldens/, tokenizers/, ...); ../shared where it is not set.
# Tests that need it say that they are skipped when it is not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

quick=false
case "${1:-}" in
  "") ;;
  --quick) quick=true ;;
  *)
    echo "usage: tools/test.sh [--quick]" >&2
    exit 2
    ;;
esac

if [ -z "${COLIBRI_ASSETS:-}" ] && [ -d ../shared/goldens ]; then COLIBRI_ASSETS=../shared; fi
if [ -n "${COLIBRI_ASSETS:-}" ]; then
  # Tests run in folders of their own.
  COLIBRI_ASSETS=$(cd "$COLIBRI_ASSETS" && pwd)
  export COLIBRI_ASSETS
fi
# Two clones of the same sources share what ccache keeps.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
jobs=$(nproc)
started=$SECONDS

# step NAME COMMAND...: runs the command, and says on standard error how long it took.
step() {
  local name=$1 from=$SECONDS
  shift
  echo "== $name" >&2
  "$@" || {
    echo "== $name: FAILED after $((SECONDS - from)) s" >&2
    exit 1
  }
  echo "== $name: $((SECONDS - from)) s" >&2
}

# build PRESET [TARGETS...]: configures a preset and builds everything, or these targets of it.
build() {
  local preset=$1
  shift
  configure "$preset" && cmake --build --preset "$preset" ${@:+--target "$@"} -- --quiet
}

configure() {
  cmake --preset "$1" -DCOLIBRI_BUILD_TESTS=ON --log-level=WARNING >/dev/null
}

# build_labelled PRESET LABEL: the test programs of a label alone; the test unit.moe is the program unit_moe_test.
build_labelled() {
  local targets
  configure "$1" || return
  targets=$(ctest --test-dir "build/$1" -N -L "$2" |
    sed -n 's/^ *Test *#[0-9]*: \([a-z0-9]*\)\.\([a-z0-9_]*\)$/\1_\2_test/p')
  # shellcheck disable=SC2086  # one word a target
  build "$1" $targets
}

# run_tests PRESET [CTEST OPTIONS...]
run_tests() {
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" "$@" </dev/null
}

# ThreadSanitizer's shadow memory wants a predictable address space, which not every kernel gives by itself.
run_threaded() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R ctest --test-dir build/tsan --output-on-failure --no-tests=error -j 1 -L threaded </dev/null
  else
    run_tests tsan -j 1 -L threaded
  fi
}

step "install what is missing" tools/install_deps.sh --tests
if ! $quick; then
  step "format" tools/check_format.sh
  step "clang: build" build clang
  step "clang: unit tests" run_tests clang -L unit
  step "address and undefined-behaviour sanitizers: build" build asan
  step "address and undefined-behaviour sanitizers: unit, golden and fuzz tests" run_tests asan -L 'unit|golden|fuzz'
  step "thread sanitizer: build" build_labelled tsan threaded
  step "thread sanitizer: threaded tests" run_threaded
  step "aarch64: what cross-compiling needs" tools/install_deps.sh --aarch64
  step "aarch64: build" build aarch64 unit_kernels_test golden_model_test
  step "aarch64: kernels and goldens on emulated CPUs" run_tests aarch64 -L isa
fi
step "g++: build" build release
echo "== everything so far: $((SECONDS - started)) s" >&2
step "g++: all tests" run_tests release
