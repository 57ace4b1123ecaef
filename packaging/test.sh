#!/usr/bin/env bash
# Installs what packaging/build.sh has made as a user would, and uses it: the Debian package in two bare Debian systems of their own,
# with its unit, manual pages and completions, an upgrade, a removal and a purge; the archive; the folder of the container.
#
#     packaging/test.sh [DIR]
#
# DIR has the results of packaging/build.sh; target/packaging/out without it. Needs root, debootstrap and Debian's packages for the
# first system, which is kept in target/packaging. What cannot be tried here says SKIPPED, and fails with EXONET_NO_SKIPS.
#
# EXAMPLE
#     packaging/build.sh && sudo packaging/test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1-} in
    --help | -h)
        sed -n '2,/^set /s/^# \{0,1\}//p' packaging/test.sh
        exit 0
        ;;
esac
out=$(cd "${1:-target/packaging/out}" && pwd)
work=$(mktemp -d)
passed=0 skipped=0
current=set-up
# Longer than anything here takes, on a machine with other work.
readonly PATIENCE=60

# End what runs in the systems, then let go of them.
finish() {
    local status=$?
    ((status == 0)) || echo "FAILED: $current" >&2
    local job
    for job in $(jobs -p); do
        kill "$job" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    umount "$work"/{near,far,container}/proc 2>/dev/null || true
    rm -rf --one-file-system -- "$work"
    exit "$status"
}
trap finish EXIT

have() { command -v "$1" >/dev/null 2>&1; }

skip() {
    echo "SKIPPED: $1"
    skipped=$((skipped + 1))
    [[ -z ${EXONET_NO_SKIPS-} ]]
}

check() {
    current=$1
    shift
    "$@"
    echo "ok: $current"
    passed=$((passed + 1))
}

# Until a command succeeds.
await() {
    local end=$((SECONDS + PATIENCE))
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

in_root() {
    local root=$1
    shift
    chroot "$work/$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
}

# As the user of the unit.
as_exon() { in_root near EXONET_STATE=/var/lib/exonet setpriv --reuid=exon --regid=exon --clear-groups exon "$@"; }

checksums() { (cd "$out" && sha256sum --quiet -c SHA256SUMS); }

# The SBOM names the very binary that is shipped, and everything that a component depends on is there.
sbom() {
    python3 - "$sbom" "$out/container/exon" <<'PYTHON'
import hashlib, json, sys
bill = json.load(open(sys.argv[1]))
said = bill["metadata"]["component"]["hashes"][0]["content"]
assert said == hashlib.sha256(open(sys.argv[2], "rb").read()).hexdigest(), "another binary"
known = {bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bill["components"])}
assert len(known) == len(bill["components"]) + 1, "a component twice"
for one in bill["dependencies"]:
    assert {one["ref"], *one["dependsOn"]} <= known, one
assert {"exonet-proto", "aws-lc-sys", "mimalloc"} <= {one["name"] for one in bill["components"]}
assert all("licenses" in one for one in bill["components"]), "a component without a licence"
PYTHON
}

sbom_schema() {
    python3 -c 'import sys
from cyclonedx.validation.json import JsonStrictValidator
from cyclonedx.schema import SchemaVersion
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
sys.exit(str(error) if error else 0)' "$sbom"
}

archive() {
    tar -xzf "$out"/exonet-*-musl.tar.gz -C "$work"
    local home
    home=$(echo "$work"/exonet-*-musl)
    cmp "$home/exon" "$out/container/exon"
    "$home/exon" --version
    local file
    for file in README.md LICENSE-APACHE LICENSE-MIT THIRD-PARTY.txt sbom.cdx.json man/man1/exon.1 completions/exon.bash; do
        [[ -s $home/$file ]] || { echo "the archive has no $file" >&2; return 1; }
    done
}

is_static() {
    local said
    said=$(file -b "$out/container/exon")
    [[ $said == *"static"*"stripped"* && $said != *"not stripped"* ]] || { echo "$said" >&2; return 1; }
}

base_system() {
    local kept=target/packaging/base.tar
    if [[ ! -f $kept ]]; then
        debootstrap --variant=minbase --include=adduser,man-db,bash-completion stable "$work/base" >"$work/debootstrap.log" 2>&1 ||
            { tail -n 5 "$work/debootstrap.log" >&2; return 1; }
        mkdir -p target/packaging
        tar -C "$work/base" --exclude './var/cache/apt/archives/*.deb' -cf "$kept.part" .
        mv "$kept.part" "$kept"
        rm -rf -- "$work/base"
    fi
    local root
    for root in near far; do
        mkdir "$work/$root"
        tar -C "$work/$root" -xf "$kept"
        # Bare systems are made without pages; this package's are wanted.
        rm -f "$work/$root"/etc/dpkg/dpkg.cfg.d/*
        mount -t proc proc "$work/$root/proc"
    done
}

is_enabled() { [[ -L $work/near/etc/systemd/system/multi-user.target.wants/exon-up.service ]]; }

install_older() {
    packaging/build.sh --binary "$out/container/exon" --version 0.0.1 --out "$work/older" >/dev/null
    dpkg --root="$work/near" -i "$work"/older/*.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; return 1; }
    [[ $(in_root near dpkg-query -f '${Version}' -W exonet) == 0.0.1 ]]
    is_enabled && { echo "the unit is enabled" >&2; return 1; }
    # An identity that the upgrade must leave alone.
    as_exon id default --new
}

upgrade() {
    local before
    before=$(identity)
    in_root near DPKG_MAINTSCRIPT_PACKAGE=exonet deb-systemd-helper enable exon-up.service >/dev/null
    dpkg --root="$work/near" -i "$out"/exonet_*.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; return 1; }
    [[ $(in_root near dpkg-query -f '${Version}' -W exonet) != 0.0.1 && $(identity) == "$before" ]]
    is_enabled
}

install_far() {
    dpkg --root="$work/far" -i "$out"/exonet_*.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; return 1; }
    in_root far exon --version
    in_root far dpkg --verify exonet
    [[ $(in_root far stat -c '%U:%G:%a' /var/lib/exonet) == exon:exon:700 ]]
}

identity() { as_exon id default; }

# What the unit says, as near as goes without systemd: its user and environment, no privileges, and everything but the state directory
# read-only.
start_unit() {
    local unit=$work/near/usr/lib/systemd/system/exon-up.service start environment
    start=$(sed -n 's/^ExecStart=//p' "$unit")
    environment=$(sed -n 's/^Environment=//p' "$unit")
    [[ $(sed -n 's/^User=//p' "$unit") == exon && $(sed -n 's/^StateDirectory=//p' "$unit") == exonet ]]
    # shellcheck disable=SC2016,SC2086
    unshare --mount bash -c '
        set -e
        root=$1 environment=$2
        shift 2
        mount --bind "$root" "$root"
        mount --bind "$root/var/lib/exonet" "$root/var/lib/exonet"
        mount -t proc proc "$root/proc"
        mount -o remount,ro,bind "$root"
        exec chroot "$root" setpriv --reuid=exon --regid=exon --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
            /usr/bin/env -i PATH=/usr/bin:/bin "$environment" "$@"
    ' unit "$work/near" "$environment" $start >"$work/up.log" 2>&1 &
    up=$!
    await grep -q 'sends as' "$work/up.log" || { cat "$work/up.log" >&2; return 1; }
    # A user that is not root, and cannot write beside its state.
    [[ $(stat -c %u "/proc/$up") == $(in_root near id -u exon) ]]
    grep -q '^NoNewPrivs:[[:space:]]*1$' "/proc/$up/status"
}

listen_far() {
    in_root far exon listen --json --as far --bind 127.0.0.1:0 >"$work/listen.log" 2>"$work/listen.err" &
    await grep -q '"type":"listening"' "$work/listen.log" || { cat "$work/listen.err" >&2; return 1; }
    peer=$(sed -n 's/.*"type":"listening".*"peer":"\([^"]*\)".*/\1/p' "$work/listen.log")
}

# By hand, between the two installed copies.
send_directly() {
    in_root near exon --quiet send "$peer" 'from hand to hand'
    await grep -q 'from hand to hand' "$work/listen.log"
}

# As `sudo -u exon env EXONET_STATE=/var/lib/exonet exon send ...`.
send_by_unit() {
    as_exon send --as default --up --durable "$peer" 'by the unit'
    await grep -q 'by the unit' "$work/listen.log"
}

# The unit takes 130 for success.
stop_unit() {
    local status=0
    kill -TERM "$up"
    wait "$up" || status=$?
    ((status == 0 || status == 130)) || { echo "it ended with $status" >&2; cat "$work/up.log" >&2; return 1; }
}

# With the program where it is on this machine.
unit_here() {
    sed "s|^ExecStart=/usr/bin/exon|ExecStart=$out/container/exon|" "$work/near/usr/lib/systemd/system/exon-up.service" \
        >"$work/exon-up.service"
}

verify_unit() {
    unit_here
    local said
    said=$(systemd-analyze --man=no verify "$work/exon-up.service" 2>&1 | grep exon-up || true)
    [[ -z $said ]] || { echo "$said" >&2; return 1; }
}

# 2.0 of 10 is what systemd calls OK.
unit_exposure() {
    systemd-analyze --offline=true --threshold=20 --no-pager security "$work/exon-up.service" >"$work/exposure" 2>&1 ||
        { cat "$work/exposure" >&2; return 1; }
    tail -n 1 "$work/exposure"
}

manual_pages() {
    local page pages=0
    for page in "$work"/near/usr/share/man/man1/exon*.1.gz; do
        page=$(basename "$page" .1.gz)
        in_root near MANWIDTH=100 man --warnings -E UTF-8 "$page" >"$work/page" 2>"$work/warnings"
        grep -qi "^ *NAME\|SYNOPSIS" "$work/page"
        [[ ! -s $work/warnings ]] || { echo "$page:" >&2; cat "$work/warnings" >&2; return 1; }
        pages=$((pages + 1))
    done
    ((pages > 30)) && echo "$pages pages"
}

# As Tab does, in a shell that loads completions by need.
completions() {
    # shellcheck disable=SC2016
    in_root near bash -c '
        . /usr/share/bash-completion/bash_completion
        _completion_loader exon
        complete -p exon | grep -q -- "-F _exon"
        COMP_WORDS=(exon se) COMP_CWORD=1
        _exon exon se exon
        printf "%s\n" "${COMPREPLY[@]}"
    ' >"$work/completed"
    grep -qx send "$work/completed" && grep -qx serve "$work/completed"
}

# Identities stay, and go on after another installation.
remove() {
    local before
    before=$(identity)
    dpkg --root="$work/near" -r exonet >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; return 1; }
    [[ ! -e $work/near/usr/bin/exon && ! -e $work/near/usr/share/man/man1/exon.1.gz && -d $work/near/var/lib/exonet/default ]]
    dpkg --root="$work/near" -i "$out"/exonet_*.deb >"$work/dpkg.log" 2>&1
    [[ $(identity) == "$before" ]]
}

purge() {
    dpkg --root="$work/near" -P exonet >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; return 1; }
    [[ ! -e $work/near/var/lib/exonet ]]
    in_root near getent passwd exon >/dev/null
    local left
    left=$(find "$work/near" -xdev \( -path "$work/near/proc" -prune \) -o \( -name '*exon*' -print \))
    [[ -z $left ]] || { echo "left: $left" >&2; return 1; }
}

# Nothing of a system but /proc is there, as in the container.
container_folder() {
    local root=$work/container
    mkdir -p "$root/usr/bin" "$root/var/lib/exonet" "$root/proc"
    cp "$out/container/exon" "$root/usr/bin/exon"
    chown 65532:65532 "$root/var/lib/exonet"
    # As engines do; a journal that is not forced needs the name of the boot.
    mount -t proc proc "$root/proc"
    EXONET_STATE=/var/lib/exonet chroot --userspec=65532:65532 "$root" /usr/bin/exon id default --new
    EXONET_STATE=/var/lib/exonet chroot --userspec=65532:65532 "$root" /usr/bin/exon --json listen --bind 127.0.0.1:0 \
        --exit-after 1 >"$work/contained.log" 2>/dev/null &
    await grep -q '"type":"listening"' "$work/contained.log"
    "$out/container/exon" --quiet send "$(sed -n 's/.*"peer":"\([^"]*\)".*/\1/p' "$work/contained.log")" 'into the container'
    await grep -q 'into the container' "$work/contained.log"
}

container_engine() {
    local engine
    for engine in podman docker; do
        if have "$engine" && "$engine" info >/dev/null 2>&1; then
            "$engine" build -t exonet-test "$out/container" >/dev/null
            "$engine" run --rm exonet-test --version
            return
        fi
    done
    return 1
}

sbom=$(echo "$out"/*.cdx.json)
check "checksums" checksums
check "the binary is static and stripped" is_static
check "archive" archive
check "SBOM: names this binary, complete" sbom
if python3 -c 'import cyclonedx.validation.json, jsonschema' 2>/dev/null; then
    check "SBOM: keeps to the schema of CycloneDX 1.5" sbom_schema
else
    skip "no cyclonedx-python-lib[json-validation], so the SBOM is not compared with its schema"
fi
if have lintian; then
    check "lintian" lintian --fail-on error,warning --allow-root "$out"/exonet_*.deb
else
    skip "no lintian"
fi
if ((EUID == 0)); then
    check "container: the folder runs with nothing else" container_folder
else
    skip "not root: the folder of the container is not run"
fi
if ! container_engine; then
    skip "no container engine runs here: Containerfile not built"
fi
if ((EUID != 0)) || ! have debootstrap; then
    skip "not root, or no debootstrap: the Debian package is not installed"
else
    check "two bare systems" base_system
    check "an older version is installed, its unit not enabled" install_older
    check "the upgrade keeps identities, and that the unit is enabled" upgrade
    check "installed in the second system, files as they were packed" install_far
    check "the unit's command runs as its user, and writes its state only" start_unit
    check "exon listen in the second system" listen_far
    check "exon send from the first to the second" send_directly
    check "exon send through the unit" send_by_unit
    check "the unit's command ends in order" stop_unit
    if have systemd-analyze; then
        check "systemd-analyze verify" verify_unit
        check "systemd-analyze security" unit_exposure
    else
        skip "no systemd-analyze"
    fi
    [[ -d /run/systemd/system ]] || skip "systemd does not run here: the unit was started by hand"
    check "manual pages" manual_pages
    check "completions in bash" completions
    check "removal keeps identities" remove
    check "purge leaves nothing" purge
fi
for shell in zsh fish; do
    if have $shell; then
        check "completions in $shell parse" $shell -n "$(echo "$work"/exonet-*-musl/completions/*exon"$([[ $shell == fish ]] && echo .fish)")"
    else
        skip "no $shell, so its completions are not loaded"
    fi
done
echo "$passed passed, 0 failed, $skipped skipped"
