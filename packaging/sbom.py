#!/usr/bin/env python3
"""Prints the SBOM of a binary of `exon` (CycloneDX 1.5, JSON), and writes the notices and licences of what is in it.

    packaging/sbom.py --target TRIPLE --version VERSION --binary FILE [--licences FILE]

The crates are those of `cargo tree` for the target. A crate that only builds others is `excluded` in the SBOM, and its licence is left
out. The same tree, binary and SOURCE_DATE_EPOCH give the same bytes.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "exonet-cli"
TEXTS = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)([-._].*)?$")
# Sources in C that crates bring along.
WITHIN = ("aws-lc", "c_src")
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def run(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def tree(target, edges):
    """{(name, version)} of what the command is built of."""
    printed = run("cargo", "tree", "--locked", "-p", PACKAGE, "--target", target, "-e", edges, "--prefix", "none", "--format", "{p}")
    words = (line.split() for line in printed.splitlines() if line)
    return {(name, version.removeprefix("v")) for name, version, *_ in words}


def packages(target):
    """Those of cargo, and what each depends on, by (name, version)."""
    data = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    keys = {package["id"]: (package["name"], package["version"]) for package in data["packages"]}
    found = {keys[package["id"]]: package for package in data["packages"]}
    edges = {keys[node["id"]]: sorted(keys[dep["pkg"]] for dep in node["deps"] if any(
        kind["kind"] != "dev" for kind in dep["dep_kinds"])) for node in data["resolve"]["nodes"]}
    return found, edges


def checksums():
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}


def reference(key):
    return "pkg:cargo/{}@{}".format(*key)


def component(key, package, linked, checksum):
    made = {
        "type": "library",
        "bom-ref": reference(key),
        "name": key[0],
        "version": key[1],
        "scope": "required" if linked else "excluded",
        "purl": reference(key),
    }
    if package["description"]:
        made["description"] = " ".join(package["description"].split())
    if package["license"]:
        # As SPDX has it; some crates write a slash for OR.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ").replace("  ", " ")}]
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def compiler():
    said = dict(line.split(": ", 1) for line in run("rustc", "-vV").splitlines() if ": " in line)
    return {
        "type": "library",
        "bom-ref": "pkg:generic/rust-std@" + said["release"],
        "name": "rust-std",
        "version": said["release"],
        "scope": "required",
        "description": "The standard library of Rust, and musl, which comes with it",
        "licenses": [{"expression": "(MIT OR Apache-2.0) AND MIT"}],
        "purl": "pkg:generic/rust-std@" + said["release"],
    }


def bill(args, found, edges, linked, every):
    binary = hashlib.sha256(pathlib.Path(args.binary).read_bytes()).hexdigest()
    sums = checksums()
    main = next(key for key in every if key[0] == PACKAGE)
    std = compiler()
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_OID, binary).urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": reference(main),
                "name": "exon",
                "version": args.version,
                "description": found[main]["description"],
                "licenses": [{"expression": found[main]["license"]}],
                "hashes": [{"alg": "SHA-256", "content": binary}],
                "purl": "pkg:cargo/{}@{}".format(PACKAGE, main[1]),
            },
            "properties": [{"name": "exonet:target", "value": args.target}],
        },
        "components": [std] + [
            component(key, found[key], key in linked, sums.get(key)) for key in sorted(every) if key != main
        ],
        "dependencies": [
            {"ref": reference(key), "dependsOn": [reference(dep) for dep in edges[key] if dep in every]
             + ([std["bom-ref"]] if key == main else [])}
            for key in sorted(every)
        ],
    }


def texts(package):
    """The files of a crate that say under which terms it may be passed on."""
    home = pathlib.Path(package["manifest_path"]).parent
    files = [path for path in home.iterdir() if path.is_file() and TEXTS.match(path.name)]
    for below in WITHIN:
        files += [path for path in (home / below).rglob("*") if path.is_file() and TEXTS.match(path.name)]
    return [path.read_text(errors="replace").strip() for path in sorted(files)]


def licences(path, found, linked):
    """Each text once, below the names of the crates that have it."""
    having, without = {}, []
    for key in sorted(linked):
        package = found[key]
        if package["source"] != CRATES_IO:
            continue
        label = f"{key[0]} {key[1]} ({package['license']})"
        own = texts(package)
        if not own:
            without.append(f"{label}, by {', '.join(package['authors']) or package['repository']}")
        for text in own:
            having.setdefault(text, []).append(label)
    with open(path, "w") as out:
        out.write("What the program exon contains beside Exonet itself, and its notices and licences.\n")
        out.write("Besides: the standard library of Rust (MIT or Apache-2.0) and musl (MIT).\n")
        if without:
            out.write("\nThese crates bring no text of their own; the texts below are those of their licences:\n\n")
            out.writelines(f"    {line}\n" for line in without)
        for text, labels in having.items():
            out.write("\n" + "=" * 80 + "\n" + "\n".join(dict.fromkeys(labels)) + "\n" + "-" * 80 + "\n" + text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--licences")
    args = parser.parse_args()
    found, edges = packages(args.target)
    linked = tree(args.target, "normal,no-proc-macro")
    every = tree(args.target, "normal,build")
    json.dump(bill(args, found, edges, linked, every), sys.stdout, indent=2, ensure_ascii=False)
    print()
    if args.licences:
        licences(args.licences, found, linked)


main()
