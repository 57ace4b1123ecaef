// Drives the module of the demo, as the page does: `node docs/demo/check.mjs exonet.wasm`.
import assert from "node:assert";
import { readFile } from "node:fs/promises";

const { instance } = await WebAssembly.instantiate(await readFile(process.argv[2]), {});
const core = instance.exports;

function report() {
    const length = core.demo_report();
    return JSON.parse(new TextDecoder().decode(new Uint8Array(core.memory.buffer, core.demo_text(), length)));
}

function pass(seconds) {
    for (let step = 0; step < seconds * 10; step += 1) core.demo_run(100000);
    return report().counts;
}

function begin(seed) {
    core.demo_start(seed);
    core.demo_link(200, 50, 150, 100);
    assert.equal(core.demo_send(1000, 0), 1000);
}

begin(1);
let counts = pass(90);
assert.deepEqual([counts.delivered, counts.taken, counts.duplicates, counts.unknown, counts.open], [1000, 1000, 0, 0, 0]);
assert.ok(counts.lost > 20);

core.demo_replay(1000);
counts = pass(10);
assert.deepEqual([counts.taken, counts.duplicates, counts.replayed], [1000, 0, 1000]);

begin(2);
pass(0.5);
core.demo_kill(1, 0);
counts = pass(90);
assert.ok(counts.unknown > 0, JSON.stringify(counts));
assert.deepEqual([counts.delivered + counts.unknown, counts.duplicates, counts.open], [1000, 0, 0]);

begin(3);
pass(0.5);
core.demo_kill(1, 1);
counts = pass(90);
assert.deepEqual([counts.delivered, counts.taken, counts.duplicates, counts.unknown], [1000, 1000, 0, 0]);
console.log("the module does what the page says");
