// Where the nodes of a draft tree stand. Depth grows along one axis, every leaf has its own line
// across it, and a parent stands level with its first child, so that the kept path is one
// straight line. Turned "right", depth goes right; turned "down", it goes down. Pixels.
(function (Confu) {
  "use strict";
  const CHAR = 7.3; // width of a monospace character at 12 px, measured
  const PAD = 14;
  const LONGEST = 22; // characters of a label; the details have the whole token
  const ROOM = { // between levels: room for the edge and its percentage; between lines
    right: { level: 44, line: 32 },
    down: { level: 54, line: 22 },
  };

  function cut(text) {
    const label = [...text];
    return label.length > LONGEST ? `${label.slice(0, LONGEST - 1).join("")}…` : label.join("");
  }

  function textWidth(text) {
    let width = 0;
    for (const char of text) width += char.charCodeAt(0) > 0x2e80 ? CHAR * 1.75 : CHAR;
    return width;
  }

  /** @param labels one for each node  @param accepted the nodes of the kept path
   *  @param ownLabel of the target's own token, or null  @param turn "right" or "down"
   *  @returns {nodes: [{x, y, width, depth, children}], own, width, height}; x is a node's left
   *  edge, y its middle; `own` is the target's own token, one level after the kept path. */
  function layout(tree, labels, accepted, ownLabel, turn) {
    const depths = Confu.cycleFacts.depthsOf(tree);
    const nodes = tree.parents.map((parent, i) => ({
      index: i, parent, depth: depths[i], children: [], line: 0,
      label: cut(labels[i]), width: 0, x: 0, y: 0,
    }));
    for (const node of nodes) if (node.parent >= 0 && node.parent < node.index) nodes[node.parent].children.push(node);
    const tip = nodes[accepted.length ? accepted[accepted.length - 1] : 0];
    const own = ownLabel === null ? null : { own: true, depth: tip.depth + 1, children: [], label: cut(ownLabel), parentNode: tip };
    const all = own ? nodes.concat(own) : nodes;
    for (const node of all) node.width = Math.max(36, textWidth(node.label) + 32);
    placeLines(nodes[0], own, new Set(accepted), tree.log_probs);
    return { nodes, own, ...(turn === "down" ? placeDown(all) : placeRight(all)) };
  }

  /** The accepted child comes first, then the likelier ones, so the kept path is the first line.
   *  Every level remembers its next free line: lost leaves stay close to where they parted. */
  function placeLines(root, own, kept, logProbs) {
    const free = [];
    const childrenOf = (node) => {
      const extra = own && own.parentNode === node ? [own] : [];
      return extra.concat(
        node.children.slice().sort((a, b) =>
          Number(kept.has(b.index)) - Number(kept.has(a.index)) || logProbs[b.index] - logProbs[a.index]
        )
      );
    };
    const lineOf = (node) => {
      const first = childrenOf(node)[0];
      return Math.max(free[node.depth] || 0, first ? lineOf(first) : 0);
    };
    const place = (node, least) => {
      node.line = Math.max(least, lineOf(node));
      free[node.depth] = node.line + 1;
      childrenOf(node).forEach((child, i) => place(child, i ? node.line + 1 : node.line));
    };
    place(root, 0);
  }

  /** The widest node of every level or line. */
  function widest(all, axis) {
    const widths = [];
    for (const node of all) widths[node[axis]] = Math.max(widths[node[axis]] || 0, node.width);
    return Array.from(widths, (width) => width || 0);
  }

  /** Where each of some spans begins when they follow one another, and where the last ends. */
  function startsOf(spans, gap) {
    const starts = [PAD];
    for (const span of spans) starts.push(starts[starts.length - 1] + span + gap);
    return starts;
  }

  function placeRight(all) {
    const { level, line } = ROOM.right;
    const starts = startsOf(widest(all, "depth"), level);
    for (const node of all) {
      node.x = starts[node.depth];
      node.y = PAD + node.line * line + line / 2 - 6;
    }
    const lines = 1 + Math.max(...all.map((node) => node.line));
    return { width: starts[starts.length - 1] - level + PAD, height: lines * line + PAD };
  }

  function placeDown(all) {
    const { level, line } = ROOM.down;
    const widths = widest(all, "line");
    const starts = startsOf(widths, line);
    for (const node of all) {
      node.x = starts[node.line] + (widths[node.line] - node.width) / 2;
      node.y = PAD + node.depth * level + 8;
    }
    const levels = 1 + Math.max(...all.map((node) => node.depth));
    return { width: starts[starts.length - 1] + PAD, height: levels * level - 18 + PAD };
  }

  Confu.treeLayout = layout;
})((window.Confu = window.Confu || {}));
