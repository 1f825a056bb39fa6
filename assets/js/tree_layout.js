// Where the nodes of a draft tree stand: depth goes right, every leaf has its own row, a parent
// stands level with its first child, so that the kept path is one straight line. Pixels.
(function (Confu) {
  "use strict";
  const CHAR = 7.3; // width of a monospace character at 12 px, measured
  const ROW = 32;
  const GAP = 44; // between columns: room for the edge and its percentage
  const PAD = 14;
  const LONGEST = 22; // characters of a label; the inspector has the whole token

  function cut(text) {
    const label = [...text];
    return label.length > LONGEST ? `${label.slice(0, LONGEST - 1).join("")}…` : label.join("");
  }

  function textWidth(text) {
    let width = 0;
    for (const char of text) width += char.charCodeAt(0) > 0x2e80 ? CHAR * 1.75 : CHAR;
    return width;
  }

  /** @param labels one for each node  @param ownLabel of the target's own token, or null
   *  @returns {nodes: [{x, y, width, depth, children}], width, height}; `own` is the place of
   *  the target's own token, one column right of the last accepted node. */
  function layout(tree, labels, accepted, ownLabel) {
    const nodes = tree.parents.map((parent, i) => ({
      index: i, parent, depth: parent < 0 ? 0 : -1, children: [],
      label: cut(labels[i]), width: 0, x: 0, y: 0,
    }));
    nodes.forEach((node) => {
      if (node.parent < 0) return;
      node.depth = nodes[node.parent].depth + 1;
      nodes[node.parent].children.push(node);
    });
    const tip = nodes[accepted.length ? accepted[accepted.length - 1] : 0];
    const own = { own: true, depth: tip.depth + 1, children: [], label: cut(ownLabel || ""), parentNode: tip };
    const all = ownLabel === null ? nodes : nodes.concat(own);
    for (const node of all) node.width = Math.max(36, textWidth(node.label) + 32);
    placeColumns(all);
    const rows = placeRows(nodes[0], ownLabel === null ? null : own, new Set(accepted), tree.log_probs);
    const width = Math.max(...all.map((node) => node.x + node.width)) + PAD;
    return { nodes, own: ownLabel === null ? null : own, width, height: rows * ROW + PAD };
  }

  function placeColumns(all) {
    const widths = [];
    for (const node of all) widths[node.depth] = Math.max(widths[node.depth] || 0, node.width);
    let x = PAD;
    const starts = widths.map((width) => {
      const start = x;
      x += width + GAP;
      return start;
    });
    for (const node of all) node.x = starts[node.depth];
  }

  /** The accepted child comes first, then the likelier ones, so the kept path runs along the top.
   *  Every column remembers its next free row: lost leaves stay close to where they parted. */
  function placeRows(root, own, kept, logProbs) {
    const free = [];
    const childrenOf = (node) => {
      const extra = own && own.parentNode === node ? [own] : [];
      return extra.concat(
        node.children.slice().sort((a, b) =>
          Number(kept.has(b.index)) - Number(kept.has(a.index)) || logProbs[b.index] - logProbs[a.index]
        )
      );
    };
    const rowOf = (node) => {
      const first = childrenOf(node)[0];
      return Math.max(free[node.depth] || 0, first ? rowOf(first) : 0);
    };
    const place = (node, least) => {
      const row = Math.max(least, rowOf(node));
      node.y = PAD + row * ROW + ROW / 2 - 6;
      free[node.depth] = row + 1;
      childrenOf(node).forEach((child, i) => place(child, i ? row + 1 : row));
    };
    place(root, 0);
    return Math.max(...free);
  }

  Confu.treeLayout = layout;
})((window.Confu = window.Confu || {}));
