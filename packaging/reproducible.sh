#!/usr/bin/env bash
# Builds the packages twice, from two clones in different directories, and compares the results byte by byte.
#
#     packaging/reproducible.sh [--keep DIR]
#
#     --keep DIR   where both results stay, as DIR/one and DIR/other; without it they are removed
#
# It needs what packaging/build.sh needs, and takes twice as long. It builds the commit that is checked out; what is not committed is not
# in it. It ends with 1 if a file differs, and names the first difference.
#
# EXAMPLE
#     packaging/reproducible.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "packaging/reproducible.sh: $1" >&2
    exit 1
}

keep=''
while (($# > 0)); do
    case $1 in
        --help | -h)
            sed -n '2,/^set /s/^# \{0,1\}//p' packaging/reproducible.sh
            exit 0
            ;;
        --keep)
            [[ -n ${2-} ]] || fail "$1 wants a value; see --help"
            mkdir -p "$2"
            keep=$(cd "$2" && pwd)
            shift 2
            ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
done

commit=$(git rev-parse HEAD 2>/dev/null) || fail "this is no clone of the repository"
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
results=${keep:-$work}

# Names of different lengths: a path that gets into a binary moves what is behind it.
build() {
    local clone=$work/$2
    git clone --quiet --no-local . "$clone"
    git -C "$clone" checkout --quiet --detach "$commit"
    echo "== building in $clone"
    CARGO_TARGET_DIR=$clone-output "$clone/packaging/build.sh" --out "$results/$1" >/dev/null
    # Both would not fit on a small disk.
    rm -rf -- "$clone-output"
}

build one here
build other a/directory/of/another/length
echo "== comparing"
if ! diff <(cd "$results/one" && find . -type f | sort) <(cd "$results/other" && find . -type f | sort); then
    fail "the builds have different files"
fi
different=0
while IFS= read -r file; do
    if cmp -- "$results/one/$file" "$results/other/$file"; then
        echo "same: $file"
    else
        different=$((different + 1))
    fi
done < <(cd "$results/one" && find . -type f -printf '%P\n' | sort)
((different == 0)) || fail "$different files differ"
echo "reproducible: $(git rev-parse --short "$commit")"
