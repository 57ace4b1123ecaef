#!/usr/bin/env bash
# Tries Exonet on other platforms than this machine's: builds `exon` for them, runs it by an emulator, and lets it talk with the `exon` of
# this machine. docs/platforms.md has what came of it.
#
#     packaging/platforms.sh [--install] [--tests] [--release] [PLATFORM]...
#
#     PLATFORM     aarch64 (Linux, by qemu-user), s390x (Linux, big-endian, by qemu-user) or windows (x86-64, by wine); all without one
#     --install    install what is missing, by apt-get (needs root) and rustup; without it the script names that, and ends
#     --tests      also run the tests of exonet-proto, exonet-store and exonet on the platform. This takes an hour and more
#     --release    build as for a release; slower to build, faster to run
#
# Needs a Linux machine on x86-64 with Debian's packages, and Rust with rustup. CARGO_TARGET_DIR says where Rust builds. All traffic is on
# loopback. A check that fails ends the script: it says which one, and keeps the directory with what the commands have said.
#
# EXAMPLE
#     sudo apt-get update && packaging/platforms.sh --install s390x
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "packaging/platforms.sh: $1" >&2
    exit 1
}

install='' tests='' profile=debug platforms=()
while (($# > 0)); do
    case $1 in
        --help | -h)
            sed -n '2,/^set /s/^# \{0,1\}//p' packaging/platforms.sh
            exit 0
            ;;
        --install | --tests) declare "${1#--}=yes" ;;
        --release) profile=release ;;
        aarch64 | s390x | windows) platforms+=("$1") ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
    shift
done
((${#platforms[@]})) || platforms=(aarch64 s390x windows)
[[ $(uname -sm) == 'Linux x86_64' ]] || fail "this machine is not Linux on x86-64"

readonly NATIVE_TARGET=x86_64-unknown-linux-gnu
readonly MESSAGES=200
# Longer than anything here takes by an emulator, on a machine with other work.
readonly PATIENCE=180
BUILD=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_INCREMENTAL=0
work=$(mktemp -d)
current=set-up
passed=0
# Processes of this script that may still run.
running=()

finish() {
    local status=$?
    local process
    for process in "${running[@]}"; do
        kill -9 "$process" 2>/dev/null || true
    done
    [[ ! -d $work/prefix ]] || WINEPREFIX=$work/prefix wineserver -k 2>/dev/null || true
    if ((status == 0)) || [[ $current == set-up ]]; then
        rm -rf --one-file-system -- "$work"
    else
        echo "FAILED: $current; what the commands have said is in $work" >&2
    fi
    exit "$status"
}
trap finish EXIT

check() {
    current="$platform: $1"
    shift
    "$@"
    echo "ok: $current"
    passed=$((passed + 1))
}

# Sets what is particular to a platform: the target, what runs its programs, and what is needed.
describe() {
    runner=() packages=() suffix='' loopback=127.0.0.1 not_store=() not_exonet=()
    case $1 in
        aarch64 | s390x)
            target=$1-unknown-linux-gnu
            runner=("qemu-$1" -L "/usr/$1-linux-gnu")
            packages=(qemu-user "gcc-$1-linux-gnu" "libc6-dev-$1-cross" cmake)
            needed=("qemu-$1" "$1-linux-gnu-gcc" cmake)
            # A program cannot start itself again by qemu-user, as the first ones do; the next one measures time.
            not_store=(--skip tests::process::)
            not_exonet=(--skip state::tests::process:: --skip driver::tests::a_driver_that_is_behind)
            # qemu-user 7.2 hands on what the system says beside datagrams in the order of bytes of this machine.
            [[ $1 != s390x ]] || not_exonet+=(--skip socket::tests::segments_come_out --skip socket::tests::a_socket_of_both)
            export "CARGO_TARGET_${1^^}_UNKNOWN_LINUX_GNU_LINKER=$1-linux-gnu-gcc"
            export "CARGO_TARGET_${1^^}_UNKNOWN_LINUX_GNU_RUNNER=${runner[*]}"
            ;;
        windows)
            target=x86_64-pc-windows-gnu
            runner=(wine)
            suffix=.exe
            # Wine 8 does not say of a socket of IPv4 whether it takes IPv6 too, and quinn-udp asks.
            loopback='[::1]'
            local tests_of_ipv4
            for tests_of_ipv4 in carrier::listener:: driver:: engine::journaling:: resolve:: send::intake:: shared:: socket::; do
                not_exonet+=(--skip "$tests_of_ipv4")
            done
            packages=(mingw-w64 nasm cmake wine wine64)
            needed=(x86_64-w64-mingw32-gcc nasm cmake wine wineserver)
            export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
            export WINEPREFIX=$work/prefix WINEDEBUG=-all WINEARCH=win64
            ;;
    esac
}

# What a platform needs is there, or is installed.
provide() {
    local command missing=()
    for command in "${needed[@]}"; do
        command -v "$command" >/dev/null || missing+=("$command")
    done
    if ((${#missing[@]})); then
        [[ -n $install ]] || fail "missing: ${missing[*]}; apt-get install ${packages[*]}, or give --install"
        apt-get install -y --no-install-recommends "${packages[@]}"
    fi
    if ! rustup target list --installed | grep -qx "$target"; then
        [[ -n $install ]] || fail "missing: rustup target add $target, or give --install"
        rustup target add "$target"
    fi
}

build() {
    local flags=()
    [[ $profile == debug ]] || flags=(--release)
    nice cargo build --locked "${flags[@]}" -p exonet-cli --bin exon --target "$1"
}

# Sets `exon` to the command of one side: `here` is this machine, `there` the platform.
of() {
    export EXONET_STATE=$place/$1
    if [[ $1 == here ]]; then
        exon=("$BUILD/$NATIVE_TARGET/$profile/exon")
    else
        exon=("${runner[@]}" "$BUILD/$target/$profile/exon$suffix")
    fi
}

# run SIDE ARGS: to the end, with what it says in the file `said`.
run() {
    of "$1"
    timeout "$PATIENCE" "${exon[@]}" "${@:2}" >"$place/said" 2>"$place/err"
}

# start SIDE NAME ARGS: sets `process`, and `peer` by its first line. What it says is in the file NAME.
start() {
    local side=$1 name=$2
    of "$side"
    : >"$place/$name"
    "${exon[@]}" "${@:3}" --json >"$place/$name" 2>"$place/$name.err" </dev/null &
    process=$!
    running+=("$process")
    await grep -q '"type":"\(listening\|up\|waiting\)"' "$place/$name"
    peer=$(sed -n '1s/.*"\(peer\|door\)":"\([^"]*\)".*/\2/p' "$place/$name")
}

# Until a command succeeds.
await() {
    local until=$((SECONDS + PATIENCE))
    until "$@"; do
        kill -0 "$process" 2>/dev/null || { "$@" && return; echo "process $process has ended" >&2; return 1; }
        ((SECONDS < until)) || { echo "in vain: $*" >&2; return 1; }
        sleep 0.2
    done
}

# Waits for the end of a process: with success.
ended() {
    timeout "$PATIENCE" tail --pid="$1" -f /dev/null
    wait "$1"
}

killed() {
    {
        kill -9 "$1"
        wait "$1" || true
    } 2>/dev/null
}

lines() { seq -f "$1 %g" "$MESSAGES"; }

# has FILE NAME: the listener's file has each of the lines, under as many ids as there are lines.
has() {
    local ids
    diff <(lines "$2" | sort) <(sed -n 's/.*"text":"\([^"]*\)".*/\1/p' "$1" | sort -u)
    ids=$(grep '"text"' "$1" | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | sort -u | wc -l)
    ((ids == MESSAGES))
}

# once FILE NAME: as `has`, and no line is there twice.
once() {
    has "$1" "$2"
    (($(grep -c '"text"' "$1") == MESSAGES))
}

# A listener of SIDE that is not there any more: sets `peer` and `at`.
absent() {
    run "$1" id receiver --new
    start "$1" absent listen --as receiver --durability "$level" --bind "$loopback:0"
    killed "$process"
    at=${peer#*@}
}

messages() {
    start "$1" heard listen --bind "$loopback:0" --exit-after "$MESSAGES" --durability "$level"
    of "$2"
    lines m | timeout "$PATIENCE" "${exon[@]}" send "$peer" 2>"$place/err"
    ended "$process"
    once "$place/heard" m
}

files() {
    mkdir -p "$place/tree/below" "$place/out"
    head -c 3000000 /dev/urandom >"$place/tree/large"
    echo small >"$place/tree/below/small"
    start "$1" heard listen --bind "$loopback:0" --out "$place/out" --durability "$level"
    run "$2" cp -r "$place/tree" "$peer"
    killed "$process"
    diff -r "$place/tree" "$place/out/tree"
}

# A listener is killed while it takes messages, and started again.
listener_killed() {
    local sender first
    run "$1" id receiver --new
    start "$1" first listen --as receiver --bind "$loopback:0" --durability "$level"
    first=$process
    of "$2"
    # The second half is there when the listener is not.
    mkfifo "$place/rest"
    { lines k | head -n $((MESSAGES / 2)); cat "$place/rest"; } |
        timeout "$PATIENCE" "${exon[@]}" send "$peer" 2>"$place/err" &
    sender=$!
    process=$first
    await grep -q '"text"' "$place/first"
    killed "$first"
    lines k | tail -n +$((MESSAGES / 2 + 1)) >"$place/rest"
    start "$1" second listen --as receiver --bind "${peer#*@}" --durability "$level"
    wait "$sender"
    await test "$(cat "$place/first" "$place/second" | grep -c '"text"')" -ge "$MESSAGES"
    killed "$process"
    cat "$place/first" "$place/second" >"$place/both"
    has "$place/both" k
}

# Messages that a killed `exon up` has are sent by the next one.
up_killed() {
    absent "$2"
    local to=$peer
    run "$1" id shop --new
    start "$1" up up --as shop --durability "$level" --bind "$loopback:0"
    of "$1"
    lines u | timeout "$PATIENCE" "${exon[@]}" send --as shop --durable "$to" --json >"$place/said"
    grep -q '"end":"queued durably"' "$place/said"
    killed "$process"
    start "$1" up up --as shop --durability "$level" --bind "$loopback:0"
    local up=$process
    run "$1" outbox ls --as shop --json
    grep -q "\"messages\":$MESSAGES" "$place/said"
    start "$2" heard listen --as receiver --durability "$level" --bind "$at" --exit-after "$MESSAGES"
    ended "$process"
    once "$place/heard" u
    run "$1" down --as shop
    wait "$up" || true
    run "$1" outbox ls --as shop --json
    grep -q '"messages":0' "$place/said"
}

up_refused() {
    run there id shop --new
    local status=0
    run there up --as shop --durability "$level" --bind "$loopback:0" || status=$?
    ((status == 1))
    grep -q 'control socket' "$place/err"
}

# moved FROM TO HOW: an identity with open messages, left by FROM, goes on at TO.
moved() {
    absent here
    local status=0 sender
    run "$1" id shop --new
    of "$1"
    if [[ $3 == killed ]]; then
        mkfifo "$place/input"
        "${exon[@]}" send --as shop --durability "$level" "$peer" <"$place/input" 2>"$place/err" &
        sender=$!
        process=$sender
        running+=("$sender")
        exec 3>"$place/input"
        lines s >&3
        await grep -rqsa "s $MESSAGES" "$place/$1/shop/journal"
        killed "$sender"
        exec 3>&-
    else
        lines s | timeout "$PATIENCE" "${exon[@]}" send --as shop --durability "$level" --timeout 3s "$peer" 2>"$place/err" || status=$?
        ((status == 6))
    fi
    mkdir -p "$place/$2"
    [[ $1 == "$2" ]] || mv "$place/$1/shop" "$place/$2/shop"
    # Windows keeps no modes, and a key that others may read is refused.
    chmod -R go= "$place/$2/shop"
    # The listener is this machine's own; the identity that has moved is not its.
    start here heard listen --as receiver --durability "$level" --bind "$at" --exit-after "$MESSAGES"
    run "$2" outbox ls --as shop --durability "$level" --json
    grep -q "\"messages\":$MESSAGES" "$place/said"
    run "$2" send --as shop --durability "$level" --continue
    ended "$process"
    once "$place/heard" s
}

# An identity with open messages goes there by `exon move`, and its messages leave from there.
carried() {
    absent here
    local to=$peer id status=0 door
    run here id shop --new
    id=$(tail -n 1 "$place/said")
    of here
    lines c | timeout "$PATIENCE" "${exon[@]}" send --as shop --durability "$level" --timeout 3s "$to" 2>"$place/err" || status=$?
    ((status == 6))
    start there arrived listen --as shop --arrive "$id" --door "$loopback:0" --bind "$loopback:0" --durability "$level"
    door=$process to=$peer
    start here heard listen --as receiver --durability "$level" --bind "$at" --exit-after "$MESSAGES"
    run here move --as shop --to "$to"
    ended "$process"
    once "$place/heard" c
    killed "$door"
}

tests() {
    nice cargo test --locked --target "$target" -p "$@" >"$place/said" 2>"$place/err"
}

# Wine's own drive. Wine 8 lacks one library that programs in Rust need, so that is made of what it has.
make_prefix() {
    wineboot --init >"$work/wineboot" 2>&1
    cat >"$work/random.c" <<'END'
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return RtlGenRandom(data, (ULONG)size); }
END
    local library=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
    [[ -e $library ]] || x86_64-w64-mingw32-gcc -shared -O1 -o "$library" "$work/random.c" -ladvapi32
}

# Each check has a directory of its own.
try() {
    place=$work/$platform-$((passed + 1))
    mkdir "$place"
    check "$@"
}


for platform in "${platforms[@]}"; do
    describe "$platform"
    provide
done
platform="this machine"
current="$platform: build"
build "$NATIVE_TARGET"
for platform in "${platforms[@]}"; do
    describe "$platform"
    current="$platform: build"
    build "$target"
    # Windows has no boot id, so not the level `process`.
    levels=(process sync)
    if [[ $platform == windows ]]; then
        levels=(sync)
        current="$platform: a place for Wine"
        make_prefix
    fi
    for level in "${levels[@]}"; do
        try "$level: $MESSAGES messages, there from here" messages there here
        try "$level: $MESSAGES messages, here from there" messages here there
        try "$level: a directory is copied, there from here" files there here
        try "$level: a directory is copied, here from there" files here there
        try "$level: a listener there is killed" listener_killed there here
        try "$level: a listener here is killed" listener_killed here there
        if [[ $platform == windows ]]; then
            try "exon up is refused" up_refused
        else
            try "$level: exon up there is killed" up_killed there here
        fi
        try "$level: an identity moves there by exon move" carried
        for how in killed ended; do
            try "$level: a sender there is $how, and goes on" moved there there "$how"
            try "$level: a sender there is $how, and goes on here" moved there here "$how"
            try "$level: a sender here is $how, and goes on there" moved here there "$how"
        done
    done
    if [[ -n $tests ]]; then
        try "tests of exonet-proto" tests exonet-proto --lib --tests
        try "tests of exonet-store" tests exonet-store --lib --tests -- "${not_store[@]}"
        try "tests of exonet" tests exonet --lib -- "${not_exonet[@]}"
    fi
done
echo "platforms: $passed checks passed"
