# What the scripts share: the virtual environment at the root, made once and renewed when pyproject.toml changes.

# Tests start pk some hundred times, and import every test file in each worker: compiled once, not each time, whatever
# the settings of whoever calls.
unset PYTHONDONTWRITEBYTECODE

say() { printf '\033[2m%s\033[0m\n' "$*" >&2; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "pk needs Python 3.11 or newer; none was found (set PYTHON to name one)." >&2
  return 1
}

make_venv() {  # make_venv ROOT
  local root=$1 python stamp wanted
  stamp=$root/.venv/.pk-installed
  wanted=$(cksum < "$root/pyproject.toml")
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && "$root/.venv/bin/python" -c '' 2>/dev/null; then
    return
  fi
  python=$(find_python) || return 1
  say "Making .venv with $("$python" --version) and installing what pk and its tests need (a few minutes, once) ..."
  [ -x "$root/.venv/bin/python" ] || "$python" -m venv "$root/.venv" || return 1
  "$root/.venv/bin/python" -m pip install --disable-pip-version-check --progress-bar on -q -e "$root[dev]" || return 1
  printf '%s\n' "$wanted" > "$stamp"
  say ".venv is ready: .venv/bin/pk"
}
