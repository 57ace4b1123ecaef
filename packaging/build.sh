#!/usr/bin/env bash
# Builds what users install: a static binary in an archive, a Debian package, the folder that a container is made of, an SBOM, and
# checksums of them all.
#
#     packaging/build.sh [--out DIR] [--version VERSION] [--binary FILE]
#
#     --out DIR           where the results go; target/packaging/out without it. It is emptied first
#     --version VERSION   what they are called; without it the version of Cargo.toml, and `-dev.N` behind it, N the number of
#                         commits, unless the commit has the tag of that version
#     --binary FILE       a binary that is already there, in place of building one
#
# Needs Rust with the target ARCH-unknown-linux-musl (rustup adds it), musl-gcc (Debian: musl-tools), Python 3, and dpkg-deb for the
# Debian package. Times in the results are SOURCE_DATE_EPOCH, or that of the commit. CARGO_TARGET_DIR says where Rust builds, MAINTAINER
# ("NAME <ADDRESS>") whom the Debian package names.
#
# EXAMPLE
#     packaging/build.sh && sudo apt install ./target/packaging/out/exonet_*.deb
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "packaging/build.sh: $1" >&2
    exit 1
}

out=target/packaging/out version='' binary=''
while (($# > 0)); do
    case $1 in
        --help | -h)
            sed -n '2,/^set /s/^# \{0,1\}//p' packaging/build.sh
            exit 0
            ;;
        --out | --version | --binary)
            [[ -n ${2-} ]] || fail "$1 wants a value; see --help"
            declare "${1#--}=$2"
            shift 2
            ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
done

TARGET=$(uname -m)-unknown-linux-musl
HOME_OF_CARGO=${CARGO_HOME:-$HOME/.cargo}
MAINTAINER=${MAINTAINER:-The Exonet developers <maintainers@exonet.example>}
BUILD=${CARGO_TARGET_DIR:-$PWD/target}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

base=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
if [[ -z $version ]]; then
    version=$base
    [[ $(git tag --points-at HEAD 2>/dev/null) == *"v$base"* ]] ||
        version=$base-dev.$(git rev-list --count HEAD 2>/dev/null || echo 0)
fi

# A binary that depends on nothing of the machine, nor tells where it was built.
build_binary() {
    command -v musl-gcc >/dev/null || fail "no musl-gcc, with which AWS-LC and mimalloc are compiled: apt install musl-tools"
    if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx "$TARGET"; then
        rustup target add "$TARGET"
    fi
    local sysroot flags compiler under=${TARGET//-/_}
    sysroot=$(rustc --print sysroot)
    flags="--remap-path-prefix=$HOME_OF_CARGO=/cargo --remap-path-prefix=$sysroot=/rust --remap-path-prefix=$PWD=/exonet"
    flags+=" --remap-path-prefix=$BUILD=/build"
    compiler="-ffile-prefix-map=$HOME_OF_CARGO=/cargo -ffile-prefix-map=$BUILD=/build"
    env "RUSTFLAGS=$flags" "CFLAGS_$under=$compiler" "CC_$under=musl-gcc" CARGO_INCREMENTAL=0 \
        CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_PROFILE_RELEASE_CODEGEN_UNITS=4 \
        cargo build --release --locked -p exonet-cli --target "$TARGET"
    binary=$BUILD/$TARGET/release/exon
}

# Everything beside the binary that the archive and the package have in common.
gather() {
    rm -rf -- "$stage"
    mkdir -p "$stage"/{man/man1,completions}
    install -m 755 "$binary" "$stage/exon"
    cp README.md CHANGELOG.md SECURITY.md LICENSE-APACHE LICENSE-MIT "$stage"
    cp packaging/debian/exon-up.service "$stage"
    "$stage/exon" --quiet man --dir "$stage/man/man1"
    "$stage/exon" completions bash > "$stage/completions/exon.bash"
    "$stage/exon" completions zsh > "$stage/completions/_exon"
    "$stage/exon" completions fish > "$stage/completions/exon.fish"
    packaging/sbom.py --target "$TARGET" --version "$version" --binary "$stage/exon" \
        --licences "$stage/THIRD-PARTY.txt" > "$out/exonet-$version.cdx.json"
    cp "$out/exonet-$version.cdx.json" "$stage/sbom.cdx.json"
    chmod -R u=rwX,go=rX "$stage"
}

archive() {
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -C "$(dirname "$stage")" -c "$(basename "$stage")" | gzip -9n > "$out/$(basename "$stage").tar.gz"
}

debian_package() {
    if ! command -v dpkg-deb >/dev/null; then
        echo "SKIPPED: no dpkg-deb, so no Debian package"
        return
    fi
    local root=$work/deb doc deb_version=${version/-/\~}
    doc=$root/usr/share/doc/exonet
    install -D -m 755 "$stage/exon" "$root/usr/bin/exon"
    install -D -m 644 "$stage/exon-up.service" "$root/usr/lib/systemd/system/exon-up.service"
    install -D -m 644 "$stage/completions/exon.bash" "$root/usr/share/bash-completion/completions/exon"
    install -D -m 644 "$stage/completions/_exon" "$root/usr/share/zsh/vendor-completions/_exon"
    install -D -m 644 "$stage/completions/exon.fish" "$root/usr/share/fish/vendor_completions.d/exon.fish"
    install -D -m 644 -t "$root/usr/share/man/man1" "$stage"/man/man1/*
    install -D -m 644 packaging/debian/lintian-overrides "$root/usr/share/lintian/overrides/exonet"
    install -D -m 644 packaging/debian/copyright "$doc/copyright"
    install -m 644 -t "$doc" README.md SECURITY.md "$stage/THIRD-PARTY.txt" "$stage/sbom.cdx.json"
    sed -e "s/@VERSION@/$deb_version/" -e "s/@MAINTAINER@/$MAINTAINER/" -e "s/@DATE@/$(date -Ru -d "@$SOURCE_DATE_EPOCH")/" \
        packaging/debian/changelog.in > "$doc/changelog"
    gzip -9n "$doc"/{changelog,THIRD-PARTY.txt,sbom.cdx.json} "$root"/usr/share/man/man1/*

    install -d -m 755 "$root/DEBIAN"
    sed -e "s/@VERSION@/$deb_version/" -e "s/@ARCH@/$(dpkg --print-architecture)/" \
        -e "s/@MAINTAINER@/$MAINTAINER/" -e "s/@SIZE@/$(du -sk --exclude=DEBIAN --apparent-size "$root" | cut -f 1)/" \
        packaging/debian/control.in > "$root/DEBIAN/control"
    install -m 755 packaging/debian/{postinst,prerm,postrm} "$root/DEBIAN"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
    chmod -R u=rwX,go=rX "$root"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$out" >/dev/null
}

# No engine is needed to make the folder; see packaging/Containerfile.
container() {
    mkdir -p "$out/container/state"
    cp "$stage/exon" "$stage/THIRD-PARTY.txt" packaging/Containerfile "$out/container"
}

[[ -n $binary ]] || build_binary
[[ -x $binary ]] || fail "$binary is no program"
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
stage=$work/exonet-$version-$TARGET
rm -rf -- "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
gather
archive
debian_package
container
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum > SHA256SUMS)
cat "$out/SHA256SUMS"
