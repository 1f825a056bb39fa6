// What the events of one draft-verify cycle say when they are read together: which nodes were
// kept, where contemplate tokens stood, which tokens of the output are the cycle's own.
(function (Confu) {
  "use strict";

  /** The depth of every node; one whose parent does not come before it counts as 0. */
  function depthsOf(tree) {
    const depths = [];
    for (const parent of tree.parents) {
      depths.push(parent >= 0 && parent < depths.length ? depths[parent] + 1 : 0);
    }
    return depths;
  }

  /** The nodes from the root to a node, root excluded. */
  function pathTo(tree, index) {
    const path = [];
    for (let i = index; i > 0; i = Math.min(tree.parents[i], i - 1)) path.unshift(i);
    return path;
  }

  /** Accepted nodes that joined the output: the run may have ended in the middle of the path,
   *  at an end token or at the limit. */
  function keptNodes(cycle) {
    const { accepted } = cycle.verified;
    return cycle.committedAt === Infinity ? accepted : accepted.slice(0, cycle.numTokens);
  }

  /** Whether the target's own token after the path joined the output. */
  function keepsOwn(cycle) {
    return cycle.committedAt === Infinity || cycle.numTokens > cycle.verified.accepted.length;
  }

  /** The nodes that come after the run's end: below the last kept node of a cycle that was cut. */
  function afterTheEnd(cycle) {
    const after = new Set();
    if (keepsOwn(cycle)) return after;
    const kept = keptNodes(cycle);
    const tip = kept.length ? kept[kept.length - 1] : 0;
    cycle.proposed.tree.parents.forEach((parent, i) => {
      if (parent === tip || after.has(parent)) after.add(i);
    });
    return after;
  }

  /** The nodes that had a contemplate token. Recordings of the first schema only count them. */
  function contemplated(cycle) {
    const { contemplated_nodes: nodes, num_contemplate_tokens: count } = cycle.verified;
    if (nodes !== null && nodes !== undefined) return new Set(nodes);
    const all = cycle.proposed.tree.parents.map((_, i) => i);
    return new Set(count === all.length ? all : []);
  }

  /** The node whose contemplate token gives the next draft its f, or null: the last accepted
   *  one, or its nearest ancestor that has one. */
  function futureSource(log, cycle) {
    const control = log.start && log.start.event.config.find(([name]) => name === "confu.future");
    if ((control && control[1] !== "on") || !keepsOwn(cycle)) return null;
    const nodes = contemplated(cycle);
    const { accepted } = cycle.verified;
    let node = accepted.length ? accepted[accepted.length - 1] : 0;
    while (node >= 0 && !nodes.has(node)) node = cycle.proposed.tree.parents[node];
    return node >= 0 ? node : null;
  }

  /** The node of a cycle's tree that is the output's token before `place`, or null. */
  function nodeBefore(cycle, place) {
    const steps = place - cycle.firstToken;
    if (steps === 0) return 0;
    const kept = cycle.verified ? keptNodes(cycle) : [];
    return steps > 0 && steps <= kept.length ? kept[steps - 1] : null;
  }

  Confu.cycleFacts = { depthsOf, pathTo, keptNodes, keepsOwn, afterTheEnd, contemplated, futureSource, nodeBefore };
})((window.Confu = window.Confu || {}));
