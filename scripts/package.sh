#!/usr/bin/env bash
# The sdist and the wheel, built from the commit, installed from an empty environment outside the clone, and measured there;
# then the studies beside them.
#
#     scripts/package.sh [EXTRA ...]    with extras, each also in an environment of its own, at work on what it is for
set -euo pipefail
unset PYTHONPATH
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
repository=$PWD

mkdir "$work/diver"
if git rev-parse --verify --quiet HEAD > /dev/null; then
  git archive --format=tar HEAD | tar -x -C "$work/diver"
else # an exported tree
  tar -c --exclude='./.venv*' --exclude=./build --exclude=./runs . | tar -x -C "$work/diver"
fi
"$python" -m venv "$work/builder"
"$work/builder/bin/pip" install --quiet build
"$work/builder/bin/python" -m build --outdir "$work/dist" "$work/diver" > "$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
wheel=$(ls "$work"/dist/*.whl)
sdist=$(ls "$work"/dist/*.tar.gz)
echo "built $(basename "$sdist") ($(du -k "$sdist" | cut -f1) kB), $(basename "$wheel") ($(du -k "$wheel" | cut -f1) kB)"
[ "$(du -k "$sdist" | cut -f1)" -lt 5000 ] || { echo "the sdist has more than 5 MB"; exit 1; }

size() { du -sm "$1"/lib/python3*/site-packages | cut -f1; }
install() { # NAME REQUIREMENT
  "$python" -m venv --without-pip "$work/$1"
  "$work/builder/bin/pip" --python "$work/$1/bin/python" install --quiet --constraint "$repository/requirements.lock" "$2"
}

cd "$work" # nothing of the clone is importable here
install core "$wheel"
PATH="$work/core/bin:$PATH" "$work/core/bin/python" "$repository/scripts/package_check.py"
echo "core: $(size core) MB"
"$work/builder/bin/pip" --python "$work/core/bin/python" install --quiet --no-deps "$work/diver/studies"
PATH="$work/core/bin:$PATH" "$work/core/bin/python" "$repository/scripts/package_check.py" studies
"$python" -m venv --without-pip "$work/alone" # NumPy and nothing else
"$work/builder/bin/pip" --python "$work/alone/bin/python" install --quiet numpy
"$work/builder/bin/pip" --python "$work/alone/bin/python" install --quiet --no-deps "$wheel"
"$work/alone/bin/python" -c "import diver; print('NumPy alone:', diver.advantages(['a b', 'a c'], [1, 0], [0, 0]))"
for extra in "$@"; do
  install "$extra" "$wheel[$extra]"
  PATH="$work/$extra/bin:$PATH" "$work/$extra/bin/python" "$repository/scripts/package_check.py" "$extra"
  echo "$extra: $(size "$extra") MB"
done
