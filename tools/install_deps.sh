#!/usr/bin/env bash
# Installs the Debian packages that Colibri needs and this machine lacks; says nothing when nothing is missing.
#   tools/install_deps.sh           to build and run
#   tools/install_deps.sh --tests   to run all tests as well (GoogleTest, clang 14, clang-format 14, an emulator)
set -euo pipefail

packages=(
  cmake ninja-build g++ pkg-config
  libsimdjson-dev libutf8proc-dev nlohmann-json3-dev libcli11-dev libedit-dev libhwloc-dev
)
case "${1:-}" in
  "") ;;
  --tests) packages+=(python3 libgtest-dev ccache clang-14 llvm-14 libclang-rt-14-dev clang-format-14 qemu-user) ;;
  *)
    echo "usage: tools/install_deps.sh [--tests]" >&2
    exit 2
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps.sh: these Debian packages are missing, and only root can install them (sudo is not here):" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "install_deps.sh: installing ${missing[*]}" >&2
{
  # "${a[@]+...}" keeps an empty list from being an error under set -u.
  ${as_root[@]+"${as_root[@]}"} apt-get update -qq
  ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
} </dev/null >&2
