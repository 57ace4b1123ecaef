#!/usr/bin/env bash
# Builds the library for C, installs it into a folder of its own, and tests what is there: by a program that calls every function, by
# the examples against each other and against `exon`, and from Go. In C11 and in C++; once more under valgrind.
#
# CARGO_TARGET_DIR says where Rust builds (c/target), EXON which command is talked to (debug/exon there). A part that the machine cannot
# run says SKIPPED; with EXONET_NO_SKIPS=1 it fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
exon=${EXON:-$CARGO_TARGET_DIR/debug/exon}
work=$(mktemp -d)
mkfifo "$work/address"
listening=
finish() {
    [[ -z $listening ]] || kill "$listening" 2>/dev/null || true
    rm -rf -- "$work"
}
trap finish EXIT

say() { printf -- '-- %s\n' "$*"; }

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

skip() {
    printf 'SKIPPED: %s\n' "$*"
    [[ ${EXONET_NO_SKIPS:-} != 1 ]] || fail "a part was skipped"
}

have() { command -v "$1" >/dev/null 2>&1; }

say "format, lints, header"
cargo fmt --check
cargo clippy --quiet --locked --all-targets -- -D warnings
cargo test --quiet --locked

say "installation"
prefix=$work/prefix
make --silent install PROFILE=dev PREFIX="$prefix"
# What programs see of the library is what the header declares.
nm -D --defined-only "$prefix/lib/libexonet.so" | awk '$2 ~ /[TDBR]/ { print $3 }' | sort >"$work/exported"
grep -o '\bexonet_[a-z_]*(' include/exonet.h | tr -d '(' | sort -u >"$work/declared"
diff "$work/exported" "$work/declared" || fail "the library and the header differ"
readelf -d "$prefix/lib/libexonet.so" | grep -q 'SONAME.*\[libexonet\.so\.1\]' || fail "the library has no version"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
# shellcheck disable=SC2046
build() { "$@" $(pkg-config --cflags exonet) $(pkg-config --libs exonet); }

say "C11 and C++"
make --silent -C examples OUT="$work/c" CFLAGS=-g
strict=(-g -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L)
build cc "${strict[@]}" -std=c11 -pthread -o "$work/api" tests/*.c
for source in examples/*.c; do
    build c++ "${strict[@]}" -x c++ -std=c++17 -o "$work/plus" "$source"
done
build c++ "${strict[@]}" -x c++ -std=c++17 -pthread -o "$work/plus" tests/*.c
# A program may use functions that the test does not name.
for function in $(grep -o '\bexonet_[a-z_]*(' include/exonet.h | sort -u); do
    grep -q "\b$function" tests/*.c tests/api.h examples/common.h || fail "no test calls $function)"
done
# Everything in one file, as pkg-config says it.
# shellcheck disable=SC2046
cc "${strict[@]}" -std=c11 $(pkg-config --cflags exonet) -o "$work/static" examples/send.c "$prefix/lib/libexonet.a" \
    $(sed -n 's/^Libs.private: //p' "$prefix/lib/pkgconfig/exonet.pc")

# Runs what listens, and reads from it where it is. Its output is in $work/heard.
listen() {
    "$@" >"$work/address" 2>"$work/errors" &
    listening=$!
    exec 3<"$work/address"
    IFS= read -r address <&3 || fail "$1 has no address: $(cat "$work/errors")"
}

# What listens ends by itself, and well, and what it has said contains this, if that is not empty.
heard() {
    cat <&3 >"$work/heard"
    exec 3<&-
    wait "$listening" || fail "what listened has failed: $(cat "$work/errors")"
    listening=
    [[ -z $1 ]] || grep -q -- "$1" "$work/heard" || fail "\"$1\" was not heard, but: $(cat "$work/heard")"
}

# Each example against the others, run by the command in front, if there is one.
examples() {
    local id=${address:-}
    listen "$@" "$work/c/listen" 127.0.0.1:0 2 "$work/state$#"
    "$@" "$work/c/send" "$address" one "two words" >"$work/sent"
    [[ $(grep -c '^delivered ' "$work/sent") == 2 ]] || fail "not delivered: $(cat "$work/sent")"
    heard ' one$'
    grep -q ' two words$' "$work/heard" || fail "heard $(cat "$work/heard")"

    listen "$@" "$work/c/call" serve 127.0.0.1:0 2
    [[ $("$@" "$work/c/call" "$address" shout "hello") == HELLO ]] || fail "nobody shouts"
    id=$("$@" "$work/c/call" "$address" shout "" 2>/dev/null) && fail "a failure looks like none"
    [[ $id == "failed with 7: there is nothing to shout" ]] || fail "it says $id"
    heard ''

    listen "$@" "$work/c/session" serve 127.0.0.1:0 1
    [[ $("$@" "$work/c/session" "$address" hello "two words" | paste -sd ,) == "HELLO,TWO WORDS" ]] || fail "no session"
    heard ''
}

# The program in the block of this language on the page.
page() { awk -v open="\`\`\`$1" '$0 == open { on = 1; next } /^```/ { on = 0 } on' ../docs/c.md; }

say "the page"
page c >"$work/page.c"
build cc "${strict[@]}" -std=c11 -o "$work/page" "$work/page.c"
[[ $("$work/page" | cut -d ' ' -f 2- | paste -sd ,) == "says hello,delivered" ]] || fail "the program of docs/c.md"

say "every function"
# Each run has identities of its own: those of another would still have messages for nodes that have ended.
"$work/api" "$work/state"
"$work/plus" "$work/state-plus"

say "the examples"
examples
listen "$work/c/listen" 127.0.0.1:0 1
[[ $("$work/static" "$address" "all in one") == "delivered "* ]] || fail "the static library does not send"
heard 'all in one$'

with_exon() {
    # Away from the identities of the user.
    local exon=(env HOME="$work" XDG_STATE_HOME="$work/xdg" "$exon")
    listen "$work/c/listen" 127.0.0.1:0 1
    "${exon[@]}" send "$address" "from exon" >"$work/sent" 2>&1 || fail "exon does not send: $(cat "$work/sent")"
    heard 'from exon$'

    listen "${exon[@]}" --json listen --bind 127.0.0.1:0 --state "$work/exon-listens" --exit-after 1
    address=$(grep -o '[a-z0-9]*@[0-9.:]*' <<<"$address" | head -n 1)
    [[ $("$work/c/send" "$address" "from C") == "delivered "* ]] || fail "exon does not take a message"
    heard 'from C'

    listen "$work/c/call" serve 127.0.0.1:0 1
    [[ $("${exon[@]}" call "$address" shout hello) == HELLO ]] || fail "exon is not answered"
    heard ''

    listen "${exon[@]}" --json names serve --bind 127.0.0.1:0 --state "$work/exon-names"
    address=$(grep -o '[a-z0-9]*@[0-9.:]*' <<<"$address" | head -n 1)
    "$work/api" "$work/state-names" "$address" || fail "names at a name server"
    exec 3<&-
    kill "$listening"
    wait "$listening" || true
    listening=

    listen "$work/c/session" serve 127.0.0.1:0 1
    [[ $(echo hello | "${exon[@]}" session open shout "$address") == HELLO ]] || fail "exon has no session"
    heard ''

    listen "${exon[@]}" --json serve --echo --bind 127.0.0.1:0 --state "$work/exon-serves" --exit-after 1
    address=$(grep -o '[a-z0-9]*@[0-9.:]*' <<<"$address" | head -n 1)
    [[ $("$work/c/call" "$address" echo "from C") == "from C" ]] || fail "exon does not answer"
    heard ''
}

if [[ -x $exon ]]; then
    say "the examples and exon"
    with_exon
else
    skip "no command exon at $exon: cargo build -p exonet-cli makes it"
fi

if have valgrind; then
    say "leaks"
    check=(valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect,possible --error-exitcode=9)
    check+=(--suppressions="$PWD/tests/valgrind.supp" --fair-sched=yes)
    # Optimized Rust may branch on the content of an `Option` that is empty, and take neither branch's result: that is no fault.
    check+=(--undef-value-errors=no)
    "${check[@]}" "$work/api" "$work/state-leaks"
    examples "${check[@]}"
else
    skip "no valgrind: apt-get install valgrind"
fi

go=$(command -v go || echo /usr/local/go/bin/go)
if [[ -x $go ]]; then
    say "Go"
    cd go
    export GOFLAGS=-mod=mod GOCACHE=${GOCACHE:-$CARGO_TARGET_DIR/go} GOTOOLCHAIN=local
    # Go keeps what it has compiled, and looks at the flags alone: not at what pkg-config says, nor at the header.
    export CGO_CFLAGS="-O2 -g -DTESTED=${work##*.}"
    unformatted=$("$("$go" env GOROOT)/bin/gofmt" -l .)
    [[ -z $unformatted ]] || fail "gofmt would change $unformatted"
    "$go" vet ./...
    # cgocheck looks at each pointer that goes to C.
    GODEBUG=cgocheck=1 "$go" test -count=1 ./...
    "$go" build -o "$work/example" ./example
    mkdir "$work/page-go"
    (
        cd ..
        page go >"$work/page-go/main.go"
        printf 'module page\n\ngo 1.21\n\nrequire exonet v0.0.0\n\nreplace exonet => %s/go\n' "$PWD" >"$work/page-go/go.mod"
        cd "$work/page-go"
        [[ $("$go" run . | cut -d ' ' -f 2- | paste -sd ,) == "says hello,delivered" ]] || fail "the program in Go of docs/c.md"
    )
    listen "$work/example" listen 127.0.0.1:0
    [[ $("$work/c/send" "$address" "from C") == "delivered "* ]] || fail "Go does not take a message"
    heard 'from C$'
    listen "$work/c/listen" 127.0.0.1:0 1
    [[ $("$work/example" send "$address" "from Go") == "delivered "* ]] || fail "Go does not send"
    heard 'from Go$'
else
    skip "no Go: apt-get install golang"
fi

echo "c: all of it holds"
