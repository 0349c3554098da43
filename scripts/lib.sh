# Functions for all scripts: the virtual environment at the root, created once and renewed when a pyproject.toml changes.

# Tests start pk hundreds of times, and each worker imports every test file. Python compiles the files only once, whatever
# the caller's settings.
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

make_venv() {  # make_venv ROOT [EXTRA]: creates .venv with an extra of pyproject.toml (default: dev, which has all)
  local root=$1 extra=${2:-dev} python stamp wanted
  stamp=$root/.venv/.pk-installed
  [ "$extra" = dev ] || stamp=$stamp-$extra
  wanted=$(cat "$root/pyproject.toml" "$root/packaging/client/pyproject.toml" | cksum)
  # Building the library for Kerberos needs the headers of the system's library.
  ! command -v krb5-config >/dev/null || wanted="$wanted kerberos"
  if "$root/.venv/bin/python" -c '' 2>/dev/null; then
    # An environment with the tests' tools has everything.
    for have in "$stamp" "$root/.venv/.pk-installed"; do
      [ -f "$have" ] && [ "$(cat "$have")" = "$wanted" ] && return
    done
  fi
  python=$(find_python) || return 1
  case $extra in
    dev) say "Making .venv with $("$python" --version), and installing what pk and its tests need (a few minutes, once):" ;;
    *) say "Making .venv with $("$python" --version), and installing what pk needs, with $extra (once):" ;;
  esac
  [ -x "$root/.venv/bin/python" ] || "$python" -m venv "$root/.venv" || return 1
  install "$root" "$extra" || return 1
  if [ "$extra" = dev ] && command -v krb5-config >/dev/null; then
    install "$root" kerberos || say "The library for Kerberos could not be built: its tests are skipped."
  fi
  printf '%s\n' "$wanted" > "$stamp"
  say ".venv is ready: .venv/bin/pk"
}

install() {  # install ROOT EXTRA: installs both distributions as editable. Python compiles the imported files; pip would compile all.
  "$1/.venv/bin/python" -m pip install --disable-pip-version-check --progress-bar on --no-compile -e "$1/packaging/client" -e "$1[$2]" |
    show_install
}

archive_classes() {  # archive_classes ROOT: lets Apache Kafka's programs start in half the time, if java and mvn are installed
  command -v java >/dev/null && command -v mvn >/dev/null || return 0
  PK_CLASS_ARCHIVES=$(cd "$1/tests" && "$1/.venv/bin/python" -m clients.class_archives) || return 0
  export PK_CLASS_ARCHIVES
}

show_install() {  # shows pip's progress on one line of a terminal: the current package, and how far a download is
  local line count=0
  while IFS= read -r line; do
    case $line in
      Collecting* | Obtaining*) count=$((count + 1)); line="package $count: ${line#* }" ;;
      *Downloading* | Installing* | *Building* | *Preparing*) line=${line#"${line%%[![:space:]]*}"} ;;
      *) continue ;;
    esac
    if [ -t 2 ]; then printf '\r\033[K\033[2m  %.76s\033[0m' "$line" >&2; else printf '  %s\n' "$line" >&2; fi
  done
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
}
