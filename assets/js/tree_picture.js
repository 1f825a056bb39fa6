// The picture of one draft tree. Line width is the drafter's probability, the ring the target's,
// the thick path was accepted, the box with the bold edge is the target's own token.
(function (Confu) {
  "use strict";
  const { svg, percent, cycleFacts } = Confu;
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

  /** The path of an edge, and where its percentage stands. */
  function route(from, to, turn) {
    if (turn === "down") {
      const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + BOX / 2, to.x + to.width / 2, to.y - BOX / 2];
      const middle = (y1 + y2) / 2;
      return { d: `M${x1},${y1} C${x1},${middle} ${x2},${middle} ${x2},${y2}`, x: x2 + 5, y: y2 - 7, anchor: "start" };
    }
    const x1 = from.x + from.width;
    const middle = (x1 + to.x) / 2;
    return { d: `M${x1},${from.y} C${middle},${from.y} ${middle},${to.y} ${to.x},${to.y}`, x: to.x - 5, y: to.y - 5, anchor: "end" };
  }

  function edge(from, to, prob, state, turn) {
    const { d, x, y, anchor } = route(from, to, turn);
    const thickness = state === "own" ? 2 : 0.75 + 4.5 * prob;
    const group = svg("g", { class: `cf-edge cf-edge-${state}` }, [
      svg("path", { d, "stroke-width": state === "accepted" ? Math.max(thickness, 3.5) : thickness }),
    ]);
    if (prob !== null && state !== "own") {
      group.append(svg("text", { x, y, "text-anchor": anchor, class: "cf-edge-label", text: percent(prob) }));
    }
    return group;
  }

  /** root, pending, accepted, surplus (after the run's end), rejected or orphan. */
  function stateOf(node, answer, { accepted, surplus }) {
    if (node.index === 0) return "root";
    if (!answer) return "pending";
    if (surplus.has(node.index)) return "surplus";
    if (accepted.has(node.index)) return "accepted";
    return node.parent === 0 || accepted.has(node.parent) ? "rejected" : "orphan";
  }

  /** Where a badge stands: never on the edge that leaves the node, nor on a percentage. */
  const corner = (node, turn) =>
    turn === "down" ? [node.x + node.width + 8, node.y + 6] : [node.x + node.width - 9, node.y - BOX / 2];

  function box(node, state, prob, marks, turn) {
    const group = svg("g", { class: `cf-node cf-node-${state}` }, [
      svg("rect", { x: node.x, y: node.y - BOX / 2, width: node.width, height: BOX, rx: 6 }),
      ring(node.x + 13, node.y, prob),
      svg("text", { x: node.x + 26, y: node.y + 4, class: "cf-node-text", text: node.label }),
    ]);
    if (marks.here) {
      group.prepend(svg("rect", { class: "cf-here", x: node.x - 4, y: node.y - BOX / 2 - 4, width: node.width + 8, height: BOX + 8, rx: 9 }));
    }
    if (marks.con) group.append(badge(...corner(node, turn), marks.source ? "f" : "con", marks.source));
    return group;
  }

  function badge(x, y, text, strong) {
    const width = text.length * 5.6 + 6;
    return svg("g", { class: `cf-con ${strong ? "cf-con-source" : ""}` }, [
      svg("rect", { x: x - width / 2, y: y - 5.5, width, height: 11, rx: 5.5 }),
      svg("text", { x, y: y + 3, "text-anchor": "middle", text }),
    ]);
  }

  function ownBox(node, origin) {
    return svg("g", { class: `cf-node cf-node-${origin}` }, [
      svg("rect", { x: node.x, y: node.y - BOX / 2, width: node.width, height: BOX, rx: 6 }),
      svg("rect", { class: "cf-node-edge", x: node.x, y: node.y - BOX / 2, width: 4, height: BOX, rx: 2 }),
      svg("text", { x: node.x + 13, y: node.y + 4, class: "cf-node-text", text: node.label }),
    ]);
  }

  /** Shrinks a tree that is a little too wide; a much wider one keeps its size and scrolls. */
  function fitting(width, room) {
    return room > 0 && width > room && width <= room * LARGEST_SHRINK ? room / width : 1;
  }

  /** @param shown {cycle, answer, here}: `answer` is the verification, or null before it
   *  @param options {words, turn, room, decorate(element, node, state)} */
  function treePicture(log, shown, options) {
    const { cycle, answer } = shown;
    const tree = cycle.proposed.tree;
    const name = (id, text) => Confu.chips.label(log, id, text, options.words);
    const own = answer && cycleFacts.keepsOwn(cycle) ? name(answer.token_id, answer.token_text) : null;
    const labels = tree.texts.map((text, i) => name(tree.token_ids[i], text));
    const plan = Confu.treeLayout(tree, labels, answer ? answer.accepted : [], own, options.turn);
    const marks = {
      accepted: new Set(answer ? answer.accepted : []),
      surplus: answer ? cycleFacts.afterTheEnd(cycle) : new Set(),
      con: answer ? cycleFacts.contemplated(cycle) : new Set(),
      source: answer ? cycleFacts.futureSource(log, cycle) : null,
    };
    const edges = svg("g", {});
    const boxes = svg("g", {});
    for (const node of plan.nodes) {
      const state = stateOf(node, answer, marks);
      const from = plan.nodes[node.parent];
      if (from) edges.append(edge(from, node, Math.exp(tree.log_probs[node.index]), state, options.turn));
      const here = { con: marks.con.has(node.index), source: node.index === marks.source, here: node.index === shown.here };
      const drawn = box(node, state, answer ? answer.target_probs[node.index] : null, here, options.turn);
      options.decorate(drawn, node, state);
      boxes.append(drawn);
    }
    if (plan.own) {
      edges.append(edge(plan.own.parentNode, plan.own, null, "own", options.turn));
      boxes.append(ownBox(plan.own, answer.token_origin));
    }
    const scale = fitting(plan.width, options.room);
    return svg("svg", { width: plan.width * scale, height: plan.height * scale, viewBox: `0 0 ${plan.width} ${plan.height}` }, [edges, boxes]);
  }

  Confu.treePicture = treePicture;
})((window.Confu = window.Confu || {}));
