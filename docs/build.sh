#!/usr/bin/env bash
# Builds the documentation site into `target/site`, and checks every link in it. Needs no network once mdBook is there.
#
#     docs/build.sh           the pages and the demo
#     docs/build.sh --api     the reference of the API besides, by rustdoc
#
# MDBOOK says which mdBook is used; without it, the one of PATH or of `target/tools`, where it is installed if there is none.
# MDBOOK_ROOT takes the place of `target/tools`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION=0.5.4
# What the demo may have, compressed: 400 kB.
MOST=400000
SITE=$PWD/target/site

case ${1-} in
    --api) export EXONET_SITE_API=1 ;;
    '') ;;
    *)
        sed -n '2,8s/^# \{0,1\}//p' "docs/build.sh"
        [[ $1 == --help ]] || exit 2
        exit 0
        ;;
esac

mdbook() {
    local root=${MDBOOK_ROOT:-target/tools}
    local own=$root/bin/mdbook
    if [[ -z ${MDBOOK-} ]]; then
        if command mdbook --version 2>/dev/null | grep -q " v$VERSION\$"; then
            MDBOOK=$(type -P mdbook)
        else
            "$own" --version 2>/dev/null | grep -q " v$VERSION\$" ||
                CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --debug mdbook --version "$VERSION" --no-default-features --features search --root "$root"
            MDBOOK=$(realpath "$own")
        fi
    fi
    "$MDBOOK" "$@"
}

# The module, and the same as a script for pages that are opened from a disk.
demo() {
    cargo build --quiet -p exonet-demo --target wasm32-unknown-unknown --profile wasm --locked
    local module="$SITE/demo/exonet.wasm" packed
    cp target/wasm32-unknown-unknown/wasm/exonet_demo.wasm "$module"
    printf 'window.EXONET_CORE = "%s";\n' "$(base64 -w 0 "$module")" >"$SITE/demo/core.js"
    packed=$(cat "$module" docs/demo/demo.js docs/demo/demo.css | gzip -9 | wc -c)
    echo "the demo has $packed bytes compressed, of $MOST"
    ((packed <= MOST))
    if command -v node >/dev/null 2>&1; then
        node docs/demo/check.mjs "$module"
    else
        echo "no node: the module was not driven as a page drives it"
    fi
}

rm -rf "$SITE"
mdbook build docs
# What builds the site is no part of it.
rm -rf "$SITE"/{build.sh,book.toml,demo/check.mjs,demo/browser.py} "$SITE"/site/*.py "$SITE"/site/__pycache__
demo
if [[ -n ${EXONET_SITE_API-} ]]; then
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
    rm -rf "$SITE/api"
    cp -r target/doc "$SITE/api"
fi
python3 docs/site/check.py "$SITE"
echo "the site is in target/site"
