#!/usr/bin/env bash
# Builds the pinned xllamacpp for this machine's AMX, AVX-512 or AVX2 units, into a folder to put first on PYTHONPATH: see README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$(realpath -m "${1:?usage: benchmarks/native_runtime/build.sh FOLDER}")
has() { grep -qw "$1" /proc/cpuinfo; }
has amx_bf16 || has avx512_vnni || has avx2 || { echo "This processor has none of AMX, AVX-512 VNNI and AVX2: use the wheel as it is." >&2; exit 1; }
for tool in cmake g++ patch; do
  command -v "$tool" > /dev/null || { echo "It needs $tool: install it first." >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^xllamacpp==/ { on = 1 } on { print } on && !/\\$/ { exit }' "$top/requirements-run.txt" > "$work/pin.txt"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet cython setuptools wheel
"$work/venv/bin/pip" download --quiet --no-deps --no-build-isolation --no-binary :all: --require-hashes -r "$work/pin.txt" -d "$work"
tar xzf "$work"/xllamacpp-*.tar.gz -C "$work"
cd "$work"/xllamacpp-*/
# Neither of the first two can be fetched from a package registry; nothing here needs them.
export CMAKE_ARGS="-DLLAMA_LLGUIDANCE=OFF -DLLAMA_BUILD_BORINGSSL=OFF -DCMAKE_BUILD_TYPE=Release"
if has amx_bf16; then
  patch -p1 < "$here/amx_bf16.patch"
else
  # Weights that are packed anew when they are loaded would not reach llama.cpp's tiles.
  CMAKE_ARGS+=" -DGGML_CPU_REPACK=OFF"
  has avx512_vnni || patch -p1 < "$here/avx2_lanes.patch"
fi
echo "Compiling: about eight minutes on two cores."
"$work/venv/bin/pip" wheel --quiet --no-cache-dir --no-deps --no-build-isolation -w "$work/wheel" .
"$work/venv/bin/pip" install --quiet --no-deps --no-index --target "$out" "$work"/wheel/*.whl
cat "$here/compact_json.py" >> "$out/xllamacpp/__init__.py"
echo "Ready: PYTHONPATH=$out python -m benchmarks.decide run ..."
