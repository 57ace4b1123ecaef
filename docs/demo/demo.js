// Draws the world of `crates/exonet-demo`, and passes on what the reader does. Time is the page's; all else is the core's.
"use strict";

(() => {
    const $ = (id) => document.getElementById(id);
    const demo = $("demo");
    const COLUMNS = 40, ROWS = 10, CELLS = COLUMNS * ROWS;
    const numbers = new Intl.NumberFormat("en");
    let core, memory, paused = false, cut = false, last = 0;

    function report() {
        const length = core.demo_report();
        return JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, core.demo_text(), length)));
    }

    // --- what the reader sets ---

    const slider = (id) => Number($(id).value);

    function setLink() {
        core.demo_link(slider("s-loss"), slider("s-dup"), slider("s-delay"), slider("s-jitter"));
        $("o-loss").textContent = `${slider("s-loss") / 10} %`;
        $("o-dup").textContent = `${slider("s-dup") / 10} %`;
        $("o-delay").textContent = `${slider("s-delay")} ms`;
        $("o-jitter").textContent = `${slider("s-jitter")} ms`;
        $("o-speed").textContent = `${slider("s-speed") / 10} ×`;
    }

    function setCut(on) {
        cut = on;
        core.demo_cut(on ? 1 : 0);
        $("demo-cut").textContent = on ? "Mend it" : "Cut it";
        $("demo-cut").classList.toggle("on", on);
    }

    function setPaused(on) {
        paused = on;
        $("demo-pause").textContent = on ? "Go on" : "Pause";
        $("demo-pause").classList.toggle("on", on);
    }

    function start(seed) {
        core.demo_start(seed >>> 0);
        setLink();
        setCut(false);
    }

    const actions = {
        send: (button) => core.demo_send(Number(button.dataset.n), $("demo-deadline").checked ? 1000 : 0),
        kill: (button) => core.demo_kill(Number(button.dataset.side), Number(button.dataset.journal)),
        cut: () => setCut(!cut),
        replay: () => core.demo_replay(200),
        pause: () => setPaused(!paused),
        anew: () => start(Number($("demo-seed").value)),
    };

    // --- drawing ---

    function surface(canvas) {
        const scale = window.devicePixelRatio || 1;
        const [width, height] = [canvas.clientWidth, canvas.clientHeight];
        if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
            [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
        }
        const context = canvas.getContext("2d");
        context.setTransform(scale, 0, 0, scale, 0, 0);
        context.clearRect(0, 0, width, height);
        return [context, width, height];
    }

    function palette() {
        const style = getComputedStyle(demo);
        const names = ["data", "hand", "lost", "old", "free", "token", "used", "envelope", "panel", "line"];
        const colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--d-${name}`).trim()]));
        return { ...colours, text: style.color };
    }

    function drawMachine(context, x, y, name, up, colours) {
        context.globalAlpha = 1;
        context.fillStyle = up ? colours.text : colours.lost;
        context.strokeStyle = up ? colours.text : colours.lost;
        context.lineWidth = 2;
        context.beginPath();
        context.roundRect(x - 30, y - 26, 60, 52, 8);
        context.stroke();
        context.textAlign = "center";
        context.font = "600 15px sans-serif";
        context.fillText(name, x, y + (up ? 5 : -1));
        if (!up) {
            context.font = "12px sans-serif";
            context.fillText("killed", x, y + 15);
        }
    }

    function drawPacket(context, packet, left, right, height, colours) {
        const [number, from, permille, kind, lost, old, length] = packet;
        const way = permille / 1000;
        const middle = height / 2;
        // Each has a height of its own, so that many can be told apart.
        const spread = ((number * 2654435761) >>> 0) / 4294967296;
        let y = from === 0 ? 18 + spread * (middle - 34) : middle + 16 + spread * (middle - 34);
        let x = from === 0 ? left + (right - left) * way : right - (right - left) * way;
        const size = 3 + Math.sqrt(length) / 7;
        context.globalAlpha = 0.85;
        context.fillStyle = old ? colours.old : kind === 4 ? colours.data : colours.hand;
        if (lost && way > 0.45) {
            const fallen = (way - 0.45) / 0.55;
            const stop = 0.45 + 0.08 * fallen;
            x = from === 0 ? left + (right - left) * stop : right - (right - left) * stop;
            y += fallen * 40;
            context.globalAlpha = 0.85 * (1 - fallen);
            context.fillStyle = colours.lost;
        }
        context.beginPath();
        context.roundRect(x - size, y - size * 0.7, size * 2, size * 1.4, 2);
        context.fill();
    }

    function drawNet(world, colours) {
        const [context, width, height] = surface($("demo-net"));
        const [left, right, middle] = [44, width - 44, height / 2];
        context.strokeStyle = world.cut ? colours.lost : colours.line;
        context.lineWidth = world.cut ? 2 : 1;
        context.setLineDash(world.cut ? [6, 8] : []);
        context.beginPath();
        context.moveTo(left + 36, middle);
        context.lineTo(right - 36, middle);
        context.stroke();
        context.setLineDash([]);
        for (const packet of world.packets) {
            drawPacket(context, packet, left + 34, right - 34, height, colours);
        }
        drawMachine(context, left, middle, "Alice", world.alice.up, colours);
        drawMachine(context, right, middle, "Bob", world.bob.up, colours);
        if (world.cut) {
            context.globalAlpha = 1;
            context.fillStyle = colours.lost;
            context.font = "600 13px sans-serif";
            context.textAlign = "center";
            context.fillText("cut", width / 2, middle - 8);
        }
    }

    // `colour` says of a number what it is; undefined: nothing is there.
    function drawCells(canvas, base, colour, colours) {
        const [context, width, height] = surface(canvas);
        const [w, h] = [width / COLUMNS, height / ROWS];
        for (let cell = 0; cell < CELLS; cell += 1) {
            const found = colour(base + cell);
            context.globalAlpha = found ? 1 : 0.35;
            context.fillStyle = found ?? colours.line;
            const [x, y] = [(cell % COLUMNS) * w, Math.floor(cell / COLUMNS) * h];
            if (found) {
                context.fillRect(x + 0.5, y + 0.5, w - 1.5, h - 1.5);
            } else {
                context.fillRect(x + w / 2 - 0.5, y + h / 2 - 0.5, 1, 1);
            }
        }
    }

    const short = (number) => (number < 1e6 ? numbers.format(number) : `${Math.floor(number / 4294967296)}·2³² + ${numbers.format(number % 4294967296)}`);

    function state(host) {
        if (!host.up) return "is killed, and starts again in a moment";
        return host.kills > 0 ? `life ${host.kills + 1}` : "";
    }

    function drawHosts(world, colours) {
        const [sender, receiver] = [world.alice.record, world.bob.record];
        $("a-state").textContent = state(world.alice);
        $("b-state").textContent = state(world.bob);
        const integer = (host) => `The integer that stays: ${short(host.ck)}.`;
        const nothing = (host, other) => (host.knows ? `A channel to ${other}, and no record.` : `Knows nothing of ${other}.`);
        $("a-text").textContent = !world.alice.up ? "" : `${integer(world.alice)} ${sender
            ? `Record: ${numbers.format(sender.envelopes)} envelopes, ${numbers.format(sender.inDoubt)} tokens in doubt${sender.r ? ` of incarnation ${short(sender.r)}` : ""}.`
            : nothing(world.alice, "Bob")}`;
        $("b-text").textContent = !world.bob.up ? "" : `${integer(world.bob)} Has forgotten what is below incarnation ${short(world.bob.b)}. ${receiver
            ? `Record: incarnation ${short(receiver.r)}, ${numbers.format(receiver.free)} free slots.`
            : nothing(world.bob, "Alice")}`;
        const known = [receiver?.lo, sender?.tokens[0], sender?.e].filter((number) => number !== undefined);
        const base = known.length > 0 ? Math.min(...known) : 0;
        const tokens = new Set(sender?.tokens);
        const free = new Set(receiver?.slots);
        drawCells($("a-cells"), base, (number) => {
            if (!sender) return undefined;
            if (tokens.has(number)) return colours.token;
            return number >= sender.e && number < sender.sck ? colours.envelope : undefined;
        }, colours);
        drawCells($("b-cells"), base, (number) => {
            if (!receiver || number < receiver.lo || number >= receiver.hi) return undefined;
            return free.has(number) ? colours.free : colours.used;
        }, colours);
    }

    function draw() {
        const world = report();
        const { counts } = world;
        const { queued = 0, inDoubt: doubt = 0 } = world.alice.record ?? { queued: counts.open };
        for (const [name, count] of Object.entries({ ...counts, queued, doubt })) {
            const tile = $(`c-${name}`);
            if (tile) tile.textContent = numbers.format(count);
        }
        document.querySelector(".t-dup").classList.toggle("bad", counts.duplicates > 0);
        const lost = counts.forgotten > 0 ? ` ${numbers.format(counts.forgotten)} messages were lost with Alice.` : "";
        $("demo-packets").textContent = `${(world.now / 1e6).toFixed(1)} s. ${numbers.format(counts.packets)} packets, ${numbers.format(counts.lost)} lost, ` +
            `${numbers.format(counts.copies)} doubled, ${numbers.format(counts.replayed)} replayed.${lost}`;
        const colours = palette();
        drawNet(world, colours);
        drawHosts(world, colours);
        return world;
    }

    function frame(at) {
        // A page in the background gets no frames: what it missed does not happen.
        const passed = Math.min(at - last, 100);
        last = at;
        try {
            if (!paused && passed > 0) core.demo_run(Math.round(passed * 100 * slider("s-speed")));
            draw();
        } catch (error) {
            return fail(error);
        }
        requestAnimationFrame(frame);
    }

    function fail(error) {
        demo.dataset.state = "failed";
        $("demo-result").hidden = false;
        $("demo-result").textContent = `The demo does not run here: ${error.message}`;
    }

    // --- for the test in a browser: `?autorun=NAME` ---

    // Clicks, lets time pass at once, and writes what the page then says.
    function autorun(name) {
        const click = (selector) => document.querySelector(`#demo ${selector}`).click();
        const pass = (seconds) => {
            for (let step = 0; step < seconds * 10; step += 1) core.demo_run(100000);
            return draw();
        };
        setPaused(true);
        click('[data-n="1000"]');
        if (name === "flight") {
            pass(0.6);
        } else if (name === "dead") {
            pass(0.5);
            click('[data-do="replay"]');
            pass(0.4);
            click('[data-side="1"][data-journal="0"]');
            click('[data-do="cut"]');
            pass(0.1);
        } else if (name === "kill") {
            pass(0.5);
            click('[data-side="1"][data-journal="0"]');
            pass(0.3);
        }
        const still = name === "flight" || name === "dead";
        const world = still ? draw() : pass(90);
        const shown = {};
        for (const tile of document.querySelectorAll("#demo b[id]")) shown[tile.id] = tile.textContent;
        $("demo-result").textContent = JSON.stringify({ autorun: name, shown, counts: world.counts });
    }

    // --- beginning ---

    async function load() {
        const base = new URL("demo/", document.baseURI);
        // From a disk a page may not fetch, but may have a script.
        if (location.protocol === "file:") {
            await new Promise((resolve, reject) => {
                const script = document.createElement("script");
                Object.assign(script, { src: new URL("core.js", base), onload: resolve, onerror: reject });
                document.head.append(script);
            });
            return Uint8Array.from(atob(window.EXONET_CORE), (letter) => letter.charCodeAt(0));
        }
        const response = await fetch(new URL("exonet.wasm", base));
        if (!response.ok) throw new Error(`exonet.wasm: ${response.status}`);
        return response.arrayBuffer();
    }

    async function main() {
        const name = new URLSearchParams(location.search).get("autorun");
        const bytes = await load();
        // A test has a clock of its own, which does not wait for a compiler in the background.
        const instance = name
            ? new WebAssembly.Instance(new WebAssembly.Module(bytes))
            : (await WebAssembly.instantiate(bytes)).instance;
        core = instance.exports;
        memory = core.memory;
        for (const button of demo.querySelectorAll("button")) {
            button.addEventListener("click", () => {
                actions[button.dataset.do](button);
                draw();
            });
        }
        for (const input of demo.querySelectorAll('input[type="range"]')) input.addEventListener("input", setLink);
        start(slider("demo-seed"));
        if (name) {
            autorun(name);
        } else {
            core.demo_send(20, 0);
            requestAnimationFrame(frame);
        }
        demo.dataset.state = "ready";
    }

    main().catch(fail);
})();
