#!/usr/bin/env bash
# Runs the examples as their README says, and checks what comes out. They must be built:
#
#     cargo build -p exonet -p exonet-names --examples && crates/exonet/examples/test.sh
#
# CARGO_TARGET_DIR says where they were built (target). A part that the machine cannot run says SKIPPED; with EXONET_NO_SKIPS=1 it fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

built=$(realpath -m "${CARGO_TARGET_DIR:-target}/debug/examples")
work=$(mktemp -d)
# The processes that run, by name.
declare -A running=()

# Ends a process by a signal, and waits until it is gone.
end() {
    local process=${running[$2]}
    unset "running[$2]"
    kill "-$1" "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
}

finish() {
    local name
    for name in "${!running[@]}"; do
        end KILL "$name"
    done
    rm -rf -- "$work"
}
trap finish EXIT

say() { printf -- '-- %s\n' "$*"; }

fail() {
    tail -n 5 "$work"/*.out "$work"/*.err >&2 2>/dev/null || true
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

skip() {
    printf 'SKIPPED: %s\n' "$*"
    [[ ${EXONET_NO_SKIPS:-} != 1 ]] || fail "a part was skipped"
}

have() { command -v "$1" >/dev/null 2>&1; }

# start NAME COMMAND...: its output is in NAME.out and NAME.err. If there is a pipe NAME.in, its input is from there.
start() {
    local name=$1 input=/dev/null
    shift
    [[ ! -p $work/$name.in ]] || input=$work/$name.in
    # Nobody is to read the output of an earlier process of this name.
    : >"$work/$name.out"
    : >"$work/$name.err"
    # A pipe that another process held open would not end.
    "$@" <"$input" >"$work/$name.out" 2>"$work/$name.err" 8>&- 9>&- &
    running[$name]=$!
}

# Waits for a process that ends by itself. It must end with 0.
ended() {
    local process=${running[$1]} _
    for _ in {1..1800}; do
        kill -0 "$process" 2>/dev/null || break
        sleep 0.05
    done
    ! kill -0 "$process" 2>/dev/null || fail "$1 does not end"
    unset "running[$1]"
    wait "$process" || fail "$1 has failed"
}

# The number of lines of a file that match.
count() { grep -c -- "$2" "$work/$1" || true; }

# await FILE PATTERN [COUNT]: waits until so many lines match.
await() {
    local _
    for _ in {1..1800}; do
        (($(count "$1" "$2") < ${3:-1})) || return 0
        sleep 0.05
    done
    fail "$1 does not have \"$2\"${3:+ $3 times}"
}

# Waits until the first line of a file is an address, and prints it.
address() {
    await "$1" '^a[a-z2-7]*@[0-9.]*:[0-9]*$'
    head -n 1 "$work/$1"
}

# runs EXAMPLE PATTERN...: it ends well, and each pattern matches one of its lines.
runs() {
    local example=$1 pattern
    say "$example"
    timeout 120 "$built/$example" >"$work/$example.out" 2>"$work/$example.err" || fail "$example ends with $?"
    shift
    for pattern in "$@"; do
        grep -q -- "$pattern" "$work/$example.out" || fail "$example does not say \"$pattern\""
    done
}

[[ -x $built/hello ]] || fail "no examples in $built: cargo build -p exonet -p exonet-names --examples makes them"

runs hello '^bob received "hello, bob" from ' '^alice knows: Delivered, '

chat_room() {
    start room "$built/chat" room "$work/room" "$1"
    room=$(address room.out)
}

chat_join() {
    mkfifo "$work/$1.in"
    start "$1" "$built/chat" join "$room" "$1"
}

chat() {
    local room
    say "chat"
    chat_room 127.0.0.1:0
    chat_join alice
    exec 8>"$work/alice.in"
    # Once a line is said, its member is in the room.
    echo one >&8
    await alice.err '(said)'
    chat_join bob
    exec 9>"$work/bob.in"
    echo two >&9
    await bob.err '(said)'
    echo three >&8
    await alice.err '(said)' 2
    await bob.out three

    # Some lines are on their way when the room dies.
    seq 5000 >&8
    await bob.out '^alice: 300$'
    end KILL room
    echo four >&8
    echo five >&9
    await alice.err '(the room has been silent for '
    await bob.err '(the room has been silent for '
    chat_room "${room#*@}"
    await alice.err '(the room is back after '
    await bob.err '(the room is back after '
    await alice.err '(said)' 5003
    await bob.err '(said)' 2
    echo six >&8
    echo seven >&9
    await bob.out six
    await alice.out seven
    await alice.err '(said)' 5004
    await bob.err '(said)' 3

    exec 8>&- 9>&-
    ended alice
    ended bob
    end TERM room
    # Each line is said once, and to the others.
    diff - "$work/alice.out" <<<$'bob: two\nbob: five\nbob: seven' || fail "alice has heard something else"
    { echo three; seq 5000; echo four; echo six; } | sed 's/^/alice: /' | diff - "$work/bob.out" || fail "bob has heard something else"
}
chat

runs counter '^moved at [0-9]* within .*, as generation 1$' '^10000 calls of 100 clients were answered, and 10000 counted$'

say "transfer"
# The crate `exonet-sql` has an example of the same name, which moves money. The newest build of the one that moves files is taken.
transfer=
while read -r file; do
    ! grep -qF 'transfer receive DIRECTORY' "$file" || transfer=$file
done < <(find "$built" -maxdepth 1 -name 'transfer*' -type f -executable -printf '%T@ %p\n' | sort -n | cut -d ' ' -f 2-)
[[ -n $transfer ]] || fail "no example transfer that receives files in $built"
TRANSFER=$transfer timeout 180 crates/exonet/examples/transfer.sh 3 6 || fail "transfer.sh ends with $?"

# fetch URL FILE
fetch() {
    if have curl; then
        curl --silent --show-error --fail --max-time 30 --output "$2" "$1"
    else
        timeout 30 python3 -c 'import sys, urllib.request as web; web.urlretrieve(*sys.argv[1:])' "$1" "$2"
    fi
}

# A server of what is in $work/served, at this port.
serve() {
    start server python3 -u -m http.server --bind 127.0.0.1 --directory "$work/served" "$1"
    await server.out '^Serving HTTP on '
    port=$(sed -n 's/^Serving HTTP on 127\.0\.0\.1 port \([0-9]*\).*/\1/p' "$work/server.out")
}

tunnel() {
    local port entry size
    local -A downloads=()
    say "tunnel"
    mkdir "$work/served"
    for size in 0 1 70000 5000000; do
        head -c "$size" /dev/urandom >"$work/served/$size"
    done
    serve 0
    start exit "$built/tunnel" exit "127.0.0.1:$port"
    start entry "$built/tunnel" entry 127.0.0.1:0 "$(address exit.out)"
    await entry.out '^listening on '
    entry=$(sed -n 's/^listening on //p' "$work/entry.out")
    for size in 0 1 70000 5000000; do
        fetch "http://$entry/$size" "$work/$size" &
        downloads[$size]=$!
    done
    for size in "${!downloads[@]}"; do
        wait "${downloads[$size]}" || fail "$size bytes do not come"
        cmp "$work/served/$size" "$work/$size" || fail "other bytes have come"
    done

    # Nothing listens at the target: the client is told, and the exit goes on.
    end KILL server
    ! fetch "http://$entry/1" "$work/none" 2>"$work/fetch.err" || fail "something comes from a port that is closed"
    await exit.err "^cannot connect to 127.0.0.1:$port: "
    serve "$port"
    fetch "http://$entry/1" "$work/again" || fail "the exit does not go on"
    cmp "$work/served/1" "$work/again" || fail "other bytes have come"
    ((1 == $(count exit.err '^cannot connect'))) || fail "the exit connects again and again"
    end TERM entry
    end TERM exit
    end TERM server
}
if have python3; then
    tunnel
else
    skip "no python3: its http.server is behind the tunnel"
fi

runs calls '^alice: add 2 gives 42$' '^alice: add failed, error: ' '^alice: subtract failed, no such method: '
runs figures '^bob has the message ' '^exonet_call_seconds: 2 times, ' '^calls_served: 2$'
runs group '^All: Failed { good: 4, need: 5, why: Deadline }$' '^Any: Reached ' '^Quorum .*: Reached ' '^Balanced .*: Reached '
runs outbox '^7.50 to the florist: booked once, as ' '^the ledger holds 3 payments$'
runs parts '^congestion control: 16 MiB are Delivered ' '^scheduler: .*, and 0 without it; ' '^retransmission policy: 300 messages, ' \
    '^load metric: 40 of 40 messages reached a member; '
runs tower '^three: THREE$'
runs traced '^paid: 20$' ': sell$' ': pay at the till$' ': debit an account$'
[[ $(awk '$3 == "below" { print $1 }' "$work/traced.out" | sort | uniq -c) == *' 3 '* ]] || fail "the spans are not of one trace"

echo "examples: all of them do what they say"
