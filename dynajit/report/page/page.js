"use strict";
// The page of a report. All that is shown comes from the JSON in #data and becomes text, never
// markup: elements are made by `el`, which sets textContent and attributes only.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = 8;
  const MOST_CHIPS = 5; // versions that are named above a function; of more, their functions are
  const STAGES = ["capture", "restore", "autodiff", "passes", "partition", "fusion", "lowering", "printing", "compiler", "load", "emit"];
  const SVG = "http://www.w3.org/2000/svg";

  // -- making elements ----------------------------------------------------------------------
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null) continue;
      if (name.startsWith("aria-")) node.setAttribute(name, String(value));
      else if (value === false) continue;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "own") node.style.setProperty("--own", value);
      else if (name === "css") Object.assign(node.style, value);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat(3)) {
      if (child === null || child === undefined || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  }
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const us = (value) => value >= 1000 ? ms(value / 1000) : `${value.toFixed(1)} \u00b5s`;
  const ms = (value) => value >= 2000 ? `${(value / 1000).toFixed(1)} s` : value >= 100 ? `${Math.round(value)} ms` : `${value.toFixed(value < 10 ? 1 : 0)} ms`;
  const base = (file) => file.split(/[\\/]/).pop();
  const colour = (version) => `var(--c${version % COLOURS})`;
  const stageColour = (name) => `var(--s${Math.max(STAGES.indexOf(name), 0)})`;
  const key = (line) => `${line[0]}:${line[1]}`;
  const place = (line) => `${base(data.files[line[0]].file)}:${line[1]}`;

  // Words of Python or C in colours. Whatever is not recognised stays as it is.
  const WORDS = {
    python: /(#.*$)|([rbfu]{0,2}(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))|\b(False|None|True|and|as|assert|async|await|break|case|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|self|try|while|with|yield)\b|\b(\d[\d_.]*(?:e[+-]?\d+)?j?)\b/gm,
    c: /(\/\/.*$|\/\*.*?\*\/|^\s*#.*$)|("(?:[^"\\]|\\.)*")|\b(const|static|void|float|double|int|u?int\d+_t|char|for|if|else|return|while|restrict|__attribute__|__global__|__shared__|__restrict__|goto|struct|unsigned|dj_\w+)\b|\b(\d[\w.]*)\b/gm,
  };
  function coloured(text, language) {
    const parts = [];
    let from = 0;
    for (const found of text.matchAll(WORDS[language])) {
      parts.push(text.slice(from, found.index));
      const kind = found[1] ? "co" : found[2] ? "st" : found[3] ? "kw" : "nu";
      parts.push(el("span", { class: kind }, found[0]));
      from = found.index + found[0].length;
    }
    parts.push(text.slice(from));
    return parts;
  }

  // -- what each line has -------------------------------------------------------------------
  const lines = new Map();
  const at = (line) => {
    const name = key(line);
    if (!lines.has(name)) lines.set(name, { line, versions: [], nodes: [], kernels: [], guards: [], breaks: [], changing: [], plain: false });
    return lines.get(name);
  };
  data.versions.forEach((version, v) => {
    version.lines.forEach((line) => at(line).versions.push(v));
    version.breaks.forEach((found) => at(found.line).breaks.push({ ...found, version: v }));
    version.guards.forEach((guard, g) => guard.line && at(guard.line).guards.push([v, g]));
    if (version.graph) version.graph.nodes.forEach((node, n) => node[4] && at(node[4]).nodes.push([v, n]));
  });
  data.kernels.forEach((kernel, k) => kernel.lines.forEach((line) => at(line).kernels.push(k)));
  data.changing.forEach((found) => found.line && at(found.line).changing.push(found));
  data.plain.forEach((line) => { at(line).plain = true; });
  const textOf = new Map();
  data.files.forEach((file, f) => file.blocks.forEach((block) => block.lines.forEach((text, i) => textOf.set(`${f}:${block.first + i}`, text))));

  // -- state --------------------------------------------------------------------------------
  const rows = new Map();
  let chosen = null;
  let version = Math.max(data.versions.findIndex((found) => found.graph), 0);
  let node = null;
  let tab = "line";
  let folded = true;

  function choose(name, options = {}) {
    chosen = lines.has(name) ? name : null;
    node = options.node === undefined ? null : options.node;
    if (chosen) {
      const own = lines.get(chosen).versions;
      if (options.version !== undefined) version = options.version;
      else if (own.length && !own.includes(version)) version = own[0];
    }
    for (const [other, row] of rows) row.classList.toggle("chosen", other === chosen);
    if (chosen && options.scroll && rows.has(chosen)) rows.get(chosen).scrollIntoView({ block: "center" });
    if (options.tab) tab = options.tab;
    show();
    if (chosen) history.replaceState(null, "", `#${encodeURIComponent(chosen)}`);
  }

  // -- the top ------------------------------------------------------------------------------
  const found = el("div", { class: "found", hidden: true, id: "found" });
  const search = el("input", {
    type: "search", placeholder: "Search everything  ( / )", "aria-label": "Search",
    oninput: () => look(search.value), onkeydown: (event) => {
      if (event.key === "Escape") { search.value = ""; look(""); search.blur(); }
      if (event.key === "Enter" && found.querySelector("button")) found.querySelector("button").click();
    },
  });
  const theme = el("button", { class: "theme", type: "button", onclick: () => paint(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true) });
  function paint(name, keep) {
    document.documentElement.dataset.theme = name;
    theme.textContent = name === "dark" ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Change to ${theme.textContent.toLowerCase()} colours`);
    if (keep) try { localStorage.setItem("dynajit-theme", name); } catch { /* a file's page may keep nothing */ }
  }
  function firstTheme() {
    let kept = null;
    try { kept = localStorage.getItem("dynajit-theme"); } catch { /* as above */ }
    return kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  function timeline() {
    const all = data.versions.filter((one) => one.ms > 0);
    if (!all.length) return null;
    // Programs of long ago and of now: gaps between compilations are left out.
    let end = 0;
    const starts = data.versions.map((one) => { const start = end; end += one.ms; return start; });
    const used = new Set();
    const lanes = data.versions.map((one, v) => {
      const sum = one.stages.reduce((total, [, value]) => total + value, 0) || 1;
      const scale = sum > one.ms ? one.ms / sum : 1;
      let from = starts[v];
      const bars = one.stages.map(([name, value]) => {
        used.add(name);
        const bar = el("i", { title: `${name}: ${ms(value)}`, "data-stage": name, css: { left: `${100 * from / end}%`, width: `${100 * value * scale / end}%`, background: stageColour(name) } });
        from += value * scale;
        return bar;
      });
      return el("button", { class: "lane", type: "button", "data-version": v, title: "Show what was compiled", onclick: () => { version = v; tab = one.graph ? "graph" : "stages"; choose(key(one.at), { version: v, scroll: true, tab }); } },
        el("span", { class: "name" }, label(v)), el("span", { class: "track" }, bars), el("span", { class: "ms" }, ms(one.ms)));
    });
    const names = [...STAGES.filter((name) => used.has(name)), ...[...used].filter((name) => !STAGES.includes(name))];
    return el("div", { class: "timeline", id: "timeline" }, el("div", { class: "bars" }, lanes),
      el("div", { class: "legend" }, names.map((name) => el("span", {}, el("i", { css: { background: stageColour(name) } }), name))));
  }
  function label(v) {
    const one = data.versions[v];
    const again = data.kind === "report" ? `, version ${one.number}` : "";
    return one.rest ? `${one.function}${again}` : `${one.function}, line ${one.at[1]}${again}`;
  }

  function top() {
    const tone = { break: "bad", breaks: "bad", recompile: "warn", recompiles: "warn" };
    return [
      el("div", { class: "row" },
        el("h1", {}, data.title), el("span", { class: "kind" }, data.kind),
        el("div", { class: "facts", id: "facts" }, data.facts.map(([number, word]) => el("span", { class: number !== "0" && tone[word] }, el("b", {}, number), ` ${word}`))),
        el("span", { class: "push" }),
        el("label", { class: "search" }, search, found), theme),
      timeline(),
    ];
  }

  // -- the source ---------------------------------------------------------------------------
  function blockHeader(f, block) {
    const last = block.first + block.lines.length - 1;
    const here = data.versions.map((one, v) => [one, v]).filter(([one]) => one.lines.some((line) => line[0] === f && line[1] >= block.first && line[1] <= last));
    if (!block.name && !here.length) return null;
    const inside = (line) => line && line[0] === f && line[1] >= block.first && line[1] <= last;
    const own = (one) => one.graph ? one.graph.nodes.filter((n) => n[1] !== "placeholder" && n[1] !== "constant" && inside(n[4])).length : 0;
    const chip = (v, words) => el("span", { class: "chip" }, el("i", { css: { background: colour(v) } }), words.filter(Boolean).join(", "));
    const groups = new Map();
    for (const [one, v] of here) groups.set(one.function, [...(groups.get(one.function) || []), v]);
    const hits = (vs) => vs.some((v) => data.versions[v].hits !== null) && count(vs.reduce((sum, v) => sum + data.versions[v].hits, 0), "hit");
    const chips = here.length > MOST_CHIPS
      ? [...groups].map(([name, vs]) => chip(vs[0], [`${name}: ${count(vs.length, "version")}`, hits(vs)]))
      : here.map(([one, v]) => chip(v, [`${label(v)}: ${count(own(one), "operation")}`, hits([v])]));
    return el("header", {}, el("b", {}, block.name || "lines"), chips.slice(0, 3 * MOST_CHIPS));
  }
  function marks(info) {
    const own = info.breaks.filter((one) => !one.follows);
    const parts = [];
    if (own.length) {
      const hits = own.reduce((total, one) => total + 1 + (data.versions[one.version].hits || 0), 0);
      const took = own.reduce((total, one) => total + data.versions[one.version].ms, 0);
      parts.push(el("span", { class: "mark break", title: `graph break: met ${hits} times; compiling up to here took ${ms(took)}` }, `break ${hits}\u00d7 ${ms(took)}`));
    }
    if (info.changing.length) {
      const times = info.changing.reduce((total, one) => total + one.count, 0);
      const took = info.changing.reduce((total, one) => total + one.ms, 0);
      parts.push(el("span", { class: "mark again", title: `${count(times, "recompile")}, ${ms(took)}` }, `\u21bb ${times}\u00d7 ${ms(took)}`));
    }
    return parts;
  }
  function row(f, number, text) {
    const name = `${f}:${number}`;
    const info = lines.get(name);
    const own = info ? [...new Set(info.versions)] : [];
    const bars = own.slice(0, 4).map(colour);
    const stops = bars.map((c, i) => `${c} ${100 * i / bars.length}% ${100 * (i + 1) / bars.length}%`).join(",");
    const broken = info && info.breaks.some((one) => !one.follows);
    const load = info && info.nodes.length ? count(info.nodes.length, "value") : "";
    const made = el("div", {
      class: ["src", broken ? "broken" : info && info.plain ? "plain" : own.length ? "captured" : ""].join(" "), own: own.length ? bars[0] : null,
      role: info && "button", tabindex: info && "0", "data-line": name,
      onclick: info && (() => choose(name, { tab: "line" })),
      onkeydown: info && ((event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(name, { tab: "line" }); } }),
    },
      el("span", { class: "marks" }, info && marks(info).length ? marks(info) : el("span", { class: "load", title: load && `${load}, ${count(info.kernels.length, "kernel")}` }, load)), el("span", { class: "number" }, number),
      el("span", { class: "bar", css: { background: bars.length > 1 ? `linear-gradient(90deg,${stops})` : bars[0] || "none" } }),
      el("code", { class: "text" }, coloured(text, "python")));
    rows.set(name, made);
    return made;
  }
  function source() {
    const shown = data.files.map((file, f) => ({ file, f })).filter(({ file }) => file.blocks.length);
    if (!shown.length) return el("p", { class: "note" }, "Nothing has been compiled yet.");
    return [
      data.skips.map((text) => el("p", { class: "note" }, `Runs as plain Python: ${text}`)),
      shown.map(({ file, f }) => el("div", { class: "file" }, el("h2", { class: "mono", title: file.file }, file.file),
        file.note && el("p", { class: "note" }, file.note),
        file.blocks.map((block) => el("div", { class: "block" }, blockHeader(f, block), block.lines.map((text, i) => row(f, block.first + i, text)))))),
      el("p", { class: "dim" }, data.about),
    ];
  }

  // -- details ------------------------------------------------------------------------------
  function nodeTable(pairs, limit = 400) {
    if (!pairs.length) return null;
    const body = pairs.slice(0, limit).map(([v, n]) => {
      const [name, op, type, args] = data.versions[v].graph.nodes[n];
      return el("tr", { class: `go${node && node[0] === v && node[1] === n ? " lit" : ""}`, title: "Show in the picture", onclick: () => { version = v; choose(chosen, { version: v, node: [v, n], tab: "graph" }); } },
        el("td", {}, el("span", { class: "chip" }, el("i", { css: { background: colour(v) } }))), el("td", { class: "mono" }, name), el("td", { class: "mono" }, op), el("td", { class: "mono" }, type), el("td", { class: "mono args", title: args }, args));
    });
    return el("div", { class: "wide" }, el("table", {}, el("tr", {}, ["", "value", "operation", "type", "arguments"].map((t) => el("th", {}, t))), body),
      pairs.length > limit ? el("p", { class: "dim" }, `and ${pairs.length - limit} more`) : null);
  }
  function kernelCard(k) {
    const kernel = data.kernels[k];
    const first = data.kernels[kernel.first];
    const pre = el("pre", { class: "code" });
    return el("details", { class: "kernel", "data-kernel": k, ontoggle: (event) => { if (event.target.open && !pre.firstChild) pre.append(...coloured(first.text, "c").map((part) => part instanceof Node ? part : document.createTextNode(part))); } },
      el("summary", {}, el("code", {}, kernel.name), " ", el("small", {}, [kernel.us ? us(kernel.us) : null, kernel.kind, kernel.role, count(kernel.nodes.length, "operation"), kernel.first === k ? null : `the text of ${first.name}, on other buffers`].filter(Boolean).join(" \u00b7 "))),
      el("p", { class: "dim" }, kernel.nodes.length ? `computes ${kernel.nodes.join(", ")}` : "", kernel.lines.length ? [" for ", kernel.lines.map((line, i) => [i ? ", " : "", el("button", { type: "button", onclick: () => choose(key(line), { scroll: true, tab: "line" }) }, el("code", {}, place(line)))])] : null),
      pre);
  }
  function kernelCards(list, limit = 200) {
    const groups = new Map();
    for (const k of list) { const first = data.kernels[k].first; if (!groups.has(first)) groups.set(first, []); groups.get(first).push(k); }
    const made = [...groups.values()].slice(0, limit).map((members) => members.length === 1 ? kernelCard(members[0]) :
      el("details", { class: "group" }, el("summary", {}, `${members.length}\u00d7 `, el("code", {}, data.kernels[members[0]].name), " ", el("small", {}, `${data.kernels[members[0]].kind} \u00b7 equal but for the names`)), el("div", {}, members.slice(0, limit).map(kernelCard))));
    return [made, groups.size > limit ? el("p", { class: "dim" }, `and ${groups.size - limit} more`) : null];
  }
  function guardList(pairs) {
    const items = (own) => pairs.filter(([v, g]) => data.versions[v].guards[g].own === own);
    const list = (some) => el("ul", { class: "plain" }, some.slice(0, 500).map(([v, g]) => {
      const guard = data.versions[v].guards[g];
      return el("li", {}, el("code", {}, guard.text), guard.reason ? el("span", { class: "dim" }, `  ${guard.reason}`) : null, guard.line ? [" ", el("button", { class: "dim", type: "button", onclick: () => choose(key(guard.line), { scroll: true, tab: "line" }) }, place(guard.line))] : null);
    }), some.length > 500 ? el("li", { class: "dim" }, `and ${some.length - 500} more`) : null);
    const users = items(false), own = items(true);
    return [users.length ? list(users) : null,
      own.length ? el("details", { class: "own" }, el("summary", {}, count(own.length, "guard"), el("small", {}, " of what the library itself relies on")), list(own)) : null];
  }
  function stageBars(one) {
    const longest = Math.max(...one.stages.map(([, value]) => value), 0.001);
    return el("table", { class: "stages" }, one.stages.map(([name, value]) => el("tr", {}, el("td", { css: { width: "110px" } }, name), el("td", { class: "num", css: { width: "80px" } }, ms(value)),
      el("td", {}, el("div", { class: "bar2", css: { width: `${100 * value / longest}%`, background: stageColour(name) } })))));
  }
  function breakCard(one) {
    return el("div", { class: "card break" }, el("p", {}, el("b", {}, one.follows ? "The loop goes on after a break" : "Graph break"), `: ${one.reason}`), el("p", {}, "What to do: ", one.hint),
      el("p", { class: "dim" }, one.fundamental ? "The program asks for this: no compiler could go on." : "A limit of dynajit.", ` ${label(one.version)} ends here.`));
  }
  function changingCard(one) {
    return el("div", { class: "card again" }, el("p", {}, el("b", {}, count(one.count, "recompile")), ` because of `, el("code", {}, one.place), `, ${ms(one.ms)}`), el("p", {}, one.text), el("p", {}, "What to do: ", one.advice));
  }

  const panels = {
    line() {
      if (!chosen) return [el("p", { class: "lead" }, "Choose a line: its operations, kernels, guards and timings are shown here."), overview()];
      const info = lines.get(chosen);
      const text = textOf.get(chosen);
      const own = [...new Set(info.versions)];
      return [
        el("p", { class: "lead mono" }, place(info.line)),
        text && text.trim() ? el("code", { class: "where" }, coloured(text.trim(), "python")) : null,
        info.breaks.map(breakCard), info.changing.map(changingCard),
        info.plain && !info.breaks.length ? el("div", { class: "card" }, "This line runs as plain Python.") : null,
        info.nodes.length ? el("h3", {}, count(info.nodes.length, "value")) : null, nodeTable(info.nodes),
        info.kernels.length ? el("h3", {}, count(info.kernels.length, "kernel")) : null, kernelCards(info.kernels),
        info.guards.length ? el("h3", {}, count(info.guards.length, "guard")) : null, guardList(info.guards),
        own.length ? el("h3", {}, "Compiled in") : null,
        own.slice(0, 8).map((v) => el("details", { class: "timing" }, el("summary", {}, el("span", { class: "chip" }, el("i", { css: { background: colour(v) } }), label(v)), " ", el("small", {}, ms(data.versions[v].ms))), el("div", {}, stageBars(data.versions[v])))),
      ];
    },
    graph() {
      const one = data.versions[version];
      if (!one || !one.graph) return [chooser(), el("p", { class: "lead" }, one && one.skip ? `Runs as plain Python: ${one.skip}` : "Nothing is computed here.")];
      const pictures = one.graph.pictures;
      const picture = pictures.length > 1 && folded ? pictures[0] : pictures[pictures.length - 1];
      return [chooser(),
        pictures.length > 1 ? el("div", { class: "tools" }, el("button", { type: "button", id: "fold", "aria-pressed": folded, onclick: () => { folded = !folded; show(); } }, `${pictures[0].band[2]} drawn once`)) : null,
        picture ? el("div", { class: "canvas" }, draw(picture, one)) : el("p", { class: "lead" }, "The graph is too large for a picture; its operations are below."),
        el("details", { id: "nodes", open: !picture }, el("summary", {}, `All ${count(one.graph.nodes.length, "value")}`), el("div", {}, nodeTable(one.graph.nodes.map((_, n) => [version, n]), 1500)))];
    },
    kernels() {
      const all = data.versions.flatMap((one) => one.kernels);
      const kinds = new Map();
      for (const k of all) {
        const kernel = data.kernels[k], name = `${kernel.role} ${kernel.kind}`, [n, time] = kinds.get(name) || [0, 0];
        kinds.set(name, [n + 1, time + kernel.us]);
      }
      const order = [...kinds].sort(([, a], [, b]) => b[1] - a[1] || b[0] - a[0]);
      return [el("p", { class: "lead" }, all.length ? order.map(([name, [n, time]]) => `${n} ${name}${time ? ` in ${us(time)}` : ""}`).join(", ") : "No kernels were generated."), kernelCards(all)];
    },
    guards() {
      return [chooser(), data.versions[version] ? [
        data.versions[version].layers.length ? [el("h3", {}, "Equal layers"), el("ul", { class: "plain" }, data.versions[version].layers.map((text) => el("li", {}, el("code", {}, text))))] : null,
        el("h3", {}, count(data.versions[version].guards.length, "guard")), guardList(data.versions[version].guards.map((_, g) => [version, g]))] : null];
    },
    stages() { return [overview()]; },
  };
  function overview() {
    return [
      data.changing.length ? [el("h3", {}, "What keeps changing"), data.changing.map(changingCard)] : null,
      data.parts.length > 1 ? [el("h3", {}, "Parts"), el("ul", { class: "plain" }, data.parts.map((text) => el("li", {}, text)))] : null,
      data.versions.slice(0, 60).map((one, v) => one.stages.length ? el("details", { class: "version", open: data.versions.length < 5 }, el("summary", {}, el("span", { class: "chip" }, el("i", { css: { background: colour(v) } })), " ", label(v), " ", el("small", {}, [ms(one.ms), one.hits === null ? null : count(one.hits, "hit")].filter(Boolean).join(" \u00b7 "))),
        el("div", {}, stageBars(one), one.passes.length ? el("pre", { class: "code" }, one.passes.map((text) => `${text}\n`).join("")) : null)) : null),
    ];
  }
  function chooser() {
    if (data.versions.length < 2) return null;
    const go = (v) => { version = v; node = null; show(); };
    if (data.versions.length > MOST_CHIPS)
      return el("div", { class: "tools", id: "versions" }, el("i", { class: "dot", css: { background: colour(version) } }),
        el("select", { "aria-label": "What was compiled", onchange: (event) => go(Number(event.target.value)) },
          data.versions.map((_, v) => el("option", { value: v, selected: v === version }, label(v)))));
    return el("div", { class: "tools", id: "versions" }, data.versions.map((_, v) => el("button", { type: "button", "aria-pressed": v === version, onclick: () => go(v) },
      el("span", { class: "chip" }, el("i", { css: { background: colour(v) } }), label(v)))));
  }

  // -- the picture --------------------------------------------------------------------------
  function draw(picture, one) {
    const mine = new Set(chosen ? lines.get(chosen).nodes.filter(([v]) => v === version).map(([, n]) => n) : []);
    if (node && node[0] === version) mine.add(node[1]);
    const lit = new Set();
    const boxes = picture.boxes.map(([n, x, y, width, title, detail], b) => {
      const [name, op, type, args, line] = one.graph.nodes[n];
      if (mine.has(n)) lit.add(b);
      const state = [op === "placeholder" || op === "constant" ? "input" : "", node && node[0] === version && node[1] === n ? "lit" : "", mine.size && !mine.has(n) ? "dimmed" : ""].join(" ");
      return svg("g", { class: `node ${state}`, "data-node": n, own: mine.has(n) ? "var(--accent)" : colour(version), onclick: () => choose(line ? key(line) : chosen, { version, node: [version, n], scroll: true, tab: "graph" }), transform: `translate(${x} ${y})` },
        svg("title", {}, `${name} = ${op}(${args})\n${type}${line ? `\n${place(line)}` : ""}`),
        svg("rect", { width, height: picture.box, rx: 7 }), svg("text", { x: width / 2, y: 16 }, title), svg("text", { class: "detail", x: width / 2, y: 31 }, detail));
    });
    const arrows = picture.arrows.map(([from, to, path]) => svg("path", { d: path, class: lit.has(from) || lit.has(to) ? "lit" : "" }));
    const tips = picture.arrows.map(([, to]) => { const [, x, y, width] = picture.boxes[to]; return svg("path", { class: "tip", d: `M${x + width / 2 - 4} ${y - 6}h8l-4 6z` }); });
    const band = picture.band;
    const side = band ? 26 : 0;
    const made = svg("svg", { width: picture.width + side, height: picture.height, viewBox: `${-side} 0 ${picture.width + side} ${picture.height}`, role: "img", "aria-label": `Graph of ${one.graph.name}` },
      band ? [svg("rect", { class: "band", x: 3 - side, y: band[0], width: picture.width + side - 6, height: band[1], rx: 10 }), svg("text", { class: "band", transform: `translate(-5 ${band[0] + band[1] / 2}) rotate(-90)` }, band[2])] : null,
      arrows, tips, boxes);
    return made;
  }

  // -- search -------------------------------------------------------------------------------
  function look(wanted) {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    found.hidden = !words.length;
    if (!words.length) return;
    const fits = (text) => { const low = text.toLowerCase(); return words.every((word) => low.includes(word)); };
    const results = [];
    const add = (what, text, go) => { if (results.length < 80 && fits(text)) results.push([what, text, go]); };
    for (const [name, text] of textOf) add("line", text.trim(), () => choose(name, { scroll: true, tab: "line" }));
    data.versions.forEach((one, v) => {
      one.breaks.forEach((found) => add("break", found.reason, () => choose(key(found.line), { scroll: true, tab: "line" })));
      if (one.graph) one.graph.nodes.forEach((n, i) => add("value", `${n[0]} = ${n[1]}: ${n[2]}`, () => { folded = false; choose(n[4] ? key(n[4]) : chosen, { version: v, node: [v, i], scroll: true, tab: "graph" }); }));
      one.guards.forEach((guard) => add("guard", guard.text, () => { version = v; guard.line ? choose(key(guard.line), { version: v, scroll: true, tab: "line" }) : (tab = "guards", show()); }));
    });
    data.kernels.forEach((kernel, k) => add("kernel", `${kernel.name} ${kernel.kind} ${kernel.nodes.join(" ")}`, () => { tab = "kernels"; show(); open(k); }));
    found.replaceChildren(...(results.length ? results.map(([what, text, go]) => el("button", { type: "button", onclick: () => { go(); search.value = ""; look(""); } }, el("span", { class: "what" }, what), el("code", {}, text))) : [el("p", {}, "Nothing has these words.")]));
  }
  function open(k) {
    const card = document.querySelector(`[data-kernel="${k}"]`);
    if (!card) return;
    for (let outer = card; outer; outer = outer.parentElement) if (outer.tagName === "DETAILS") outer.open = true;
    card.scrollIntoView({ block: "nearest" });
  }

  // -- all of it ----------------------------------------------------------------------------
  const side = document.getElementById("side");
  const panel = el("div", { class: "panel", id: "panel", role: "tabpanel" });
  const tabs = [["line", "Line"], ["graph", "Graph"], ["kernels", "Kernels", data.kernels.length], ["guards", "Guards"], ["stages", "Compilation"]];
  const bar = el("nav", { role: "tablist" });
  function show() {
    bar.replaceChildren(...tabs.map(([name, title, number]) => el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": name === tab, onclick: () => { tab = name; show(); } }, title, number ? el("small", {}, number) : null)));
    panel.replaceChildren(...[panels[tab]()].flat(4).filter(Boolean).map((part) => part instanceof Node ? part : document.createTextNode(part)));
    panel.scrollTop = 0;
    const lit = panel.querySelector("g.lit");
    if (lit) lit.scrollIntoView({ block: "center", inline: "center" });
  }
  paint(firstTheme(), false);
  document.getElementById("top").append(...top().filter(Boolean));
  document.getElementById("source").append(...[source()].flat(3).filter(Boolean));
  side.append(bar, panel);
  document.addEventListener("keydown", (event) => { if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); } });
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) look(""); });
  const asked = decodeURIComponent(location.hash.slice(1));
  if (lines.has(asked)) choose(asked, { scroll: true }); else show();
})();
