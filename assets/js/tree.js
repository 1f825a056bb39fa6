// The draft tree of one cycle. Line width is the drafter's probability, the ring is the target's,
// the thick path was accepted, the box with the bold edge is the target's own token.
(function (Confu) {
  "use strict";
  const { el, svg, setText, percent } = Confu;
  const BOX = 24; // height of a node, px
  const LARGEST_SHRINK = 1.4;

  function ring(x, y, prob) {
    const r = 6;
    const around = 2 * Math.PI * r;
    const group = svg("g", { class: "cf-ring" }, [svg("circle", { cx: x, cy: y, r })]);
    if (prob !== null) {
      group.append(
        svg("circle", {
          class: "cf-ring-value", cx: x, cy: y, r, transform: `rotate(-90 ${x} ${y})`,
          "stroke-dasharray": `${around * prob} ${around}`,
        })
      );
    }
    return group;
  }

  function edge(from, to, prob, state) {
    const x1 = from.x + from.width;
    const middle = (x1 + to.x) / 2;
    const thickness = state === "own" ? 2 : 0.75 + 4.5 * prob;
    const group = svg("g", { class: `cf-edge cf-edge-${state}` }, [
      svg("path", {
        d: `M${x1},${from.y} C${middle},${from.y} ${middle},${to.y} ${to.x},${to.y}`,
        "stroke-width": state === "accepted" ? Math.max(thickness, 3.5) : thickness,
      }),
    ]);
    if (prob !== null && state !== "own") {
      group.append(svg("text", { x: to.x - 5, y: to.y - 5, "text-anchor": "end", class: "cf-edge-label", text: percent(prob) }));
    }
    return group;
  }

  function stateOf(node, cycle, verified, kept) {
    if (node.parent < 0) return "root";
    if (!verified) return "pending";
    if (kept.has(node.index)) return "accepted";
    return node.parent === 0 || kept.has(node.parent) ? "rejected" : "orphan";
  }

  function box(node, state, prob, marks) {
    const group = svg("g", { class: `cf-node cf-node-${state}` }, [
      svg("rect", { x: node.x, y: node.y - BOX / 2, width: node.width, height: BOX, rx: 6 }),
      ring(node.x + 13, node.y, prob),
      svg("text", { x: node.x + 26, y: node.y + 4, class: "cf-node-text", text: node.label }),
    ]);
    if (marks.con) group.append(badge(node.x + node.width - 9, node.y - BOX / 2, marks.source ? "f" : "con", marks.source));
    return group;
  }

  function badge(x, y, text, strong) {
    const width = text.length * 5.6 + 6;
    return svg("g", { class: `cf-con ${strong ? "cf-con-source" : ""}` }, [
      svg("rect", { x: x - width / 2, y: y - 5.5, width, height: 11, rx: 5.5 }),
      svg("text", { x, y: y + 3, "text-anchor": "middle", text }),
    ]);
  }

  class TreeView {
    constructor(context) {
      const { words } = context;
      this.context = context;
      this.costly = true;
      this.key = "";
      this.tabs = el("div", { class: "cf-tabs", role: "group", "aria-label": words.say("tree.lanes") });
      this.label = el("span", { class: "cf-where" });
      this.caption = el("p", { class: "cf-caption" });
      this.canvas = el("div", { class: "cf-tree", tabindex: "0", role: "group", "aria-label": words.say("tree.title") });
      const move = (delta) => () => context.moveCycle(delta);
      this.node = el("section", { class: "cf-panel cf-tree-panel", "aria-label": words.say("tree.title") }, [
        el("header", { class: "cf-panel-head" }, [
          el("h3", { text: words.say("tree.title"), title: words.say("tree.how") }), this.tabs,
          el("span", { class: "cf-pager" }, [
            el("button", { type: "button", text: "‹", "aria-label": words.say("tree.previous"), on: { click: move(-1) } }),
            this.label,
            el("button", { type: "button", text: "›", "aria-label": words.say("tree.next"), on: { click: move(1) } }),
          ]),
        ]),
        this.canvas,
        this.caption,
        el("p", { class: "cf-how", text: words.say("tree.how") }),
      ]);
    }

    draw(frame) {
      this.node.hidden = !frame.treeLanes.length;
      if (this.node.hidden) return;
      this.drawTabs(frame);
      if (frame.layout !== this.layout) this.room = this.canvas.clientWidth;
      this.layout = frame.layout;
      const { lane, cycle } = frame.tree;
      const verified = Boolean(cycle) && cycle.verifiedAt < lane.n;
      const key = [lane.log.name, cycle ? cycle.cycle : "-", verified, frame.selection.node, this.room, frame.race].join();
      if (key === this.key) return;
      this.key = key;
      this.drawTree(frame, lane, cycle, verified);
    }

    drawTabs(frame) {
      const names = frame.treeLanes.map((lane) => lane.log.name);
      const key = `${names.join()}/${frame.tree.lane.log.name}`;
      if (this.tabs.dataset.key === key) return;
      this.tabs.dataset.key = key;
      const { words, select } = this.context;
      this.tabs.replaceChildren(
        ...names.map((name) =>
          el("button", {
            type: "button", text: words.method(name), "aria-pressed": String(name === frame.tree.lane.log.name),
            on: { click: () => select({ lane: name }) },
          })
        )
      );
    }

    drawTree(frame, lane, cycle, verified) {
      const { words } = this.context;
      if (!cycle) {
        setText(this.label, "–");
        setText(this.caption, words.say("tree.none"));
        this.canvas.replaceChildren();
        return;
      }
      const total = Confu.LaneLog.count(lane.log.cycles, lane.n);
      const pin = frame.selection.cycle !== null && frame.selection.lane === lane.log.name;
      setText(this.label, words.say(pin ? "tree.pinned" : "tree.cycle", { cycle: cycle.cycle + 1, total }));
      setText(this.caption, caption(cycle, verified, words));
      this.canvas.replaceChildren(this.picture(frame, lane, cycle, verified));
    }

    picture(frame, lane, cycle, verified) {
      const tree = cycle.proposed.tree;
      const answer = verified ? cycle.verified : null;
      const name = (id, text) => Confu.chips.label(lane.log, id, text, this.context.words);
      const labels = tree.texts.map((text, i) => name(tree.token_ids[i], text));
      const own = answer ? name(answer.token_id, answer.token_text) : null;
      const plan = Confu.treeLayout(tree, labels, answer ? answer.accepted : [], own);
      const kept = new Set(answer ? answer.accepted : []);
      const conEverywhere = Boolean(answer) && answer.num_contemplate_tokens === tree.parents.length;
      const last = answer && answer.accepted.length ? answer.accepted[answer.accepted.length - 1] : 0;
      const edges = svg("g", {});
      const boxes = svg("g", {});
      for (const node of plan.nodes) {
        const state = stateOf(node, cycle, verified, kept);
        if (node.parent >= 0) {
          edges.append(edge(plan.nodes[node.parent], node, Math.exp(tree.log_probs[node.index]), state));
        }
        const marks = { con: conEverywhere, source: node.index === last };
        const drawn = box(node, state, answer ? answer.target_probs[node.index] : null, marks);
        this.makeSelectable(drawn, lane, cycle, node, state, frame);
        boxes.append(drawn);
      }
      if (plan.own) {
        edges.append(edge(plan.own.parentNode, plan.own, null, "own"));
        boxes.append(ownBox(plan.own, answer.token_origin));
      }
      const scale = fitting(plan.width, this.room);
      return svg("svg", { width: plan.width * scale, height: plan.height * scale, viewBox: `0 0 ${plan.width} ${plan.height}` }, [edges, boxes]);
    }

    makeSelectable(drawn, lane, cycle, node, state, frame) {
      const { words, select } = this.context;
      const pick = () => select({ lane: lane.log.name, cycle: cycle.cycle, node: node.index });
      drawn.setAttribute("tabindex", "0");
      drawn.setAttribute("role", "button");
      drawn.setAttribute("aria-label", `${node.label} — ${words.say(`node.${state}`)}`);
      drawn.addEventListener("click", pick);
      drawn.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          event.stopPropagation();
          pick();
        }
      });
      if (frame.selection.node === node.index) drawn.classList.add("cf-picked");
    }
  }

  /** Shrinks a tree that is a little too wide; a much wider one keeps its size and scrolls. */
  function fitting(width, room) {
    return room > 0 && width > room && width <= room * LARGEST_SHRINK ? room / width : 1;
  }

  function ownBox(node, origin) {
    return svg("g", { class: `cf-node cf-node-${origin}` }, [
      svg("rect", { x: node.x, y: node.y - BOX / 2, width: node.width, height: BOX, rx: 6 }),
      svg("rect", { class: "cf-node-edge", x: node.x, y: node.y - BOX / 2, width: 4, height: BOX, rx: 2 }),
      svg("text", { x: node.x + 13, y: node.y + 4, class: "cf-node-text", text: node.label }),
    ]);
  }

  function caption(cycle, verified, words) {
    const drafted = cycle.proposed.tree.parents.length - 1;
    if (!verified) return words.say("tree.proposed", { drafted, ms: Confu.ms(cycle.proposed.ms) });
    const answer = cycle.verified;
    return words.say(`tree.verified.${answer.token_origin}`, {
      drafted, accepted: answer.accepted.length, verified: answer.num_target_tokens,
      contemplate: answer.num_contemplate_tokens, draft_ms: Confu.ms(cycle.proposed.ms),
      verify_ms: Confu.ms(answer.ms),
    });
  }

  Confu.TreeView = TreeView;
})((window.Confu = window.Confu || {}));
