#!/bin/sh
# Unpacks packages of the Debian or Ubuntu release this machine runs, without installing them:
#
#   sh deploy/fetch-debian.sh FOLDER PACKAGE...
#
# Each package, with its missing dependencies, goes into FOLDER/<release>-<architecture>/PACKAGE; existing ones stay.
# Prints the folder of each available package. Exits with 1 unless all of them are available. Progress and errors go to
# standard error.
#
# apt uses the machine's sources and verifies every package with the machine's keys. Lists, cache, state and locks are
# private to this run, so that an ordinary user can run it next to another apt.
set -eu
umask 022
# The errors of apt are searched, and shown beside English sentences.
export LC_ALL=C
DOWNLOAD_SECONDS=180
LOCK_SECONDS=300

for program in apt-get dpkg dpkg-deb flock; do
  command -v "$program" >/dev/null || { echo "Cannot fetch packages: $program is not installed" >&2; exit 1; }
done
mkdir -p "$1"
release=$(. /etc/os-release && echo "$ID-${VERSION_ID:-${VERSION_CODENAME:-unstable}}")-$(dpkg --print-architecture)
folder=$(cd "$1" && pwd)/$release
shift
mkdir -p "$folder"

# One run at a time per folder: the second one finds the packages of the first.
exec 9>"$folder/lock"
flock -w "$LOCK_SECONDS" 9 || { echo "Cannot fetch packages: another process has held $folder/lock for $LOCK_SECONDS s" >&2; exit 1; }
missing=
for package; do
  [ -d "$folder/$package" ] || missing="$missing $package"
done
# Prints the folders of the available packages among its arguments.
print_folders() {
  for package; do
    [ ! -d "$folder/$package" ] || echo "$folder/$package"
  done
}

if [ -z "$missing" ]; then
  print_folders "$@"
  exit
fi
echo "Not installed:$missing. Fetching with apt into $folder (SANDBOX_FETCH=off prevents this)." >&2

# Left by a killed run; the lock proves that no other run uses them.
work=$folder/partial
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
# apt places dpkg's locks next to this file.
cp /var/lib/dpkg/status "$work/status"
cat >"$work/apt.conf" <<END
Dir::State "$work/state";
Dir::State::lists "lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Dir::Cache::archives "archives";
Dir::Log "$work";
APT::Get::Assume-Yes "true";
APT::Get::AllowUnauthenticated "false";
APT::Install-Recommends "false";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "10";
Acquire::https::Timeout "10";
// Commands that the machine runs after its own updates.
#clear APT::Update;
#clear AptCli;
END

# apt-get with these settings: `run_apt <command> <argument>...`.
run_apt() {
  timeout --foreground "$DOWNLOAD_SECONDS" apt-get -q -c "$work/apt.conf" "$@" >"$work/$1.log" 2>&1
}

# Prints why a package is not available: apt's first error about the sources, or else about the package.
explain_failure() {
  reason=$(cat "$work/update.log" "$work/install.log" | grep -m 1 -E '^(E:|W: Failed)' || echo "E: apt-get took longer than $DOWNLOAD_SECONDS s")
  echo "Cannot fetch $1: ${reason#?: }" >&2
}

# Unpacks one package, with its missing dependencies, into $work/<package>.
unpack() {
  rm -f "$work"/cache/archives/*.deb
  run_apt install --reinstall --download-only "$1" && ls "$work/cache/archives/$1"_*.deb >/dev/null 2>&1 || {
    explain_failure "$1"
    return 1
  }
  for file in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$file" "$work/$1"
  done
  # Documentation, examples and browser scripts: most of the bytes.
  rm -rf "$work/$1/usr/share"
}

# Lets programs find the libraries unpacked next to them, in any environment.
add_library_path() {
  programs=$(find "$work/$1" -type f -path '*bin/*' -perm -u+x | while read -r file; do
    ! ldd "$file" 2>/dev/null | grep -q 'not found' || echo "$file"
  done)
  [ -n "$programs" ] || return 0
  [ -d "$folder/patchelf" ] || { unpack patchelf && mv "$work/patchelf" "$folder/patchelf"; } || return 1
  directories=$(find "$work/$1" -name '*.so.*' -printf '$ORIGIN/../../%P\n' | sed 's,/[^/]*$,,' | sort -u | paste -sd:)
  echo "$programs" | while read -r file; do
    # RPATH, not RUNPATH: it also applies to the libraries of these libraries.
    "$folder/patchelf/usr/bin/patchelf" --force-rpath --set-rpath "$directories" "$file" || exit 1
  done
}

# If one of several sources does not respond, the package may come from another.
run_apt update || true
failed=0
for package in $missing; do
  [ ! -d "$folder/$package" ] || continue
  if unpack "$package" && add_library_path "$package"; then
    mv "$work/$package" "$folder/$package"
  else
    failed=1
  fi
done
print_folders "$@"
exit "$failed"
