#!/usr/bin/env bash
# Installs the Debian packages that Colibri needs and this machine lacks; says nothing when nothing is missing.
#   tools/install_deps.sh             to build and run
#   tools/install_deps.sh --tests     to run all tests as well (GoogleTest, clang 14, clang-format 14, emulators)
#   tools/install_deps.sh --aarch64   to build for aarch64 and test that with an emulator; the libraries are not installed
#                                     but laid into build/aarch64-sysroot, which needs no root
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

libraries=(libsimdjson-dev libutf8proc-dev nlohmann-json3-dev libcli11-dev libedit-dev libhwloc-dev)
packages=(cmake ninja-build g++ pkg-config)
sysroot=
case "${1:-}" in
  "") packages+=("${libraries[@]}") ;;
  --tests)
    packages+=(
      "${libraries[@]}" python3 libgtest-dev ccache clang-14 llvm-14 libclang-rt-14-dev clang-format-14 qemu-user
    )
    ;;
  --aarch64)
    packages+=(python3 ccache g++-aarch64-linux-gnu qemu-user)
    sysroot=build/aarch64-sysroot
    ;;
  *)
    echo "usage: tools/install_deps.sh [--tests | --aarch64]" >&2
    exit 2
    ;;
esac

install_missing() {
  local missing=() as_root=() package status
  for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

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
}

# make_sysroot FOLDER PACKAGES...: unpacks arm64 packages and all that they need, the C library too, into a folder. The
# machine's own packages stay as they are: apt works on lists and a status in the folder.
make_sysroot() {
  local root=$PWD/$1 wanted apt deb link
  shift
  wanted="$*"
  [ "$(cat "$root/packages" 2>/dev/null)" != "$wanted" ] || return 0
  echo "install_deps.sh: unpacking arm64 packages into $root" >&2
  rm -rf "$root"
  apt=$root/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  : >"$apt/status"
  cat >"$apt/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State::Lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Debug::NoLocking "true";
CONF
  {
    APT_CONFIG=$apt/apt.conf apt-get update -qq
    APT_CONFIG=$apt/apt.conf apt-get install -y -qq --no-install-recommends --download-only "$@"
  } </dev/null >&2
  for deb in "$apt"/cache/archives/*.deb; do dpkg -x "$deb" "$root"; done
  # Links between packages are absolute: they are to lead to this folder's files.
  find "$root" -type l -lname '/*' | while read -r link; do
    ln -sfrT "$root$(readlink "$link")" "$link"
  done
  rm -rf "$apt"
  echo "$wanted" >"$root/packages"
}

install_missing
if [ -n "$sysroot" ]; then make_sysroot "$sysroot" "${libraries[@]}" libgtest-dev; fi
