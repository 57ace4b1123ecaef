#!/usr/bin/env bash
# Sends a file through a network of its own, takes the interface down in the middle, and up again: the file comes whole, and the sender does
# not begin anew.
#
#     sudo crates/exonet/examples/transfer.sh [SECONDS [MEBIBYTES]]      # down for SECONDS, 8 if not given; 60 is a minute
#
# It makes two network namespaces with a link between them, which only root may (or who has CAP_SYS_ADMIN). It changes nothing else of
# the machine, and removes them in the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

down=${1:-8}
mebibytes=${2:-16}
# So slow that the outage comes in the middle.
rate=20mbit

skip() {
    echo "SKIPPED: $*" >&2
    if [[ -n ${EXONET_NO_SKIPS:-} ]]; then exit 1; fi
    exit 0
}
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
[[ $(uname) == Linux ]] || skip "network namespaces are Linux's"
{ command -v ip && command -v tc; } >/dev/null || skip "the commands ip and tc are missing: apt-get install iproute2"
((EUID == 0)) || skip "only root may make network namespaces: give the command with sudo"
unshare --net true 2>/dev/null || skip "this machine does not let root make network namespaces (a container without CAP_SYS_ADMIN?)"

if [[ -z ${TRANSFER:-} ]]; then
    cargo build -q -p exonet --example transfer
    TRANSFER=${CARGO_TARGET_DIR:-target}/debug/examples/transfer
fi
TRANSFER=$(realpath "$TRANSFER")

near=exonet-near-$$ far=exonet-far-$$ work=$(mktemp -d)
started=()
finish() {
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || true
    done
    ip netns delete "$near" 2>/dev/null || true
    ip netns delete "$far" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# /run/netns is where names of namespaces are: some containers cannot have it.
{ ip netns add "$near" && ip netns add "$far"; } 2>"$work/why" || skip "cannot make network namespaces: $(<"$work/why")"
ip link add near netns "$near" type veth peer name far netns "$far" 2>"$work/why" || skip "cannot make a link: $(<"$work/why")"
ip -n "$near" address add 10.77.0.1/24 dev near
ip -n "$far" address add 10.77.0.2/24 dev far
ip -n "$near" link set near up
ip -n "$far" link set far up
if ! tc -n "$near" qdisc add dev near root tbf rate "$rate" burst 32kbit latency 100ms 2>"$work/why"; then
    echo "the link is not slowed down ($(<"$work/why")): a larger file is sent" >&2
    mebibytes=$((mebibytes * 40))
fi

whole=$((mebibytes << 20))
head -c "$whole" /dev/urandom >"$work/file"
ip netns exec "$far" "$TRANSFER" receive "$work/came" 10.77.0.2:4478 >"$work/told" &
started+=("$!")
for _ in $(seq 100); do
    [[ -s $work/told ]] && break
    sleep 0.1
done
peer=$(head -n 1 "$work/told")
[[ -n $peer ]] || fail "the receiver has not started"
echo "sends $mebibytes MiB to $peer"
ip netns exec "$near" "$TRANSFER" send "$peer" "$work/file" 2>"$work/noticed" &
sender=$!
started+=("$sender")
size() { stat -c %s "$work/came/file.part" 2>/dev/null || echo 0; }
until (($(size) > whole / 2)); do
    kill -0 "$sender" 2>/dev/null || fail "the sender has ended before the outage"
    sleep 0.05
done

ip -n "$near" link set near down
sleep 1
before=$(size)
echo "the interface is down, with $before bytes there"
sleep "$((down - 1))"
after=$(size)
((before == after)) || fail "bytes have come through an interface that is down"
ip -n "$near" link set near up
echo "the interface is up again, after $down s"
wait "$sender" || fail "the file was not sent: $(<"$work/noticed")"
cmp "$work/file" "$work/came/file" || fail "another file has come"
for notice in 'silent for' 'back after'; do
    grep "$notice" "$work/noticed" || fail "the sender does not say \"$notice\""
done
# From the beginning, it would be half of the file more.
sent=$(ip netns exec "$near" cat /sys/class/net/near/statistics/tx_bytes)
echo "the file has come whole, by $sent bytes on the link"
((sent < whole * 5 / 4)) || fail "much was sent again"
