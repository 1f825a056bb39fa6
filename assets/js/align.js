// Two lanes side by side: which lanes, and which cycle of each. They are lined up by the moment
// of the race, or by the place in the text, where one sees how both drafted the same words.
(function (Confu) {
  "use strict";
  const { LaneLog } = Confu;

  /** The lanes that were asked for, else EAGLE-3 and ConFu, else the first ones that draft. */
  function chooseLanes(lanes, wanted) {
    const named = (name) => lanes.find((lane) => lane.log.name === name) || null;
    const right = named(wanted.right) || named("confu") || lanes[lanes.length - 1] || null;
    const others = lanes.filter((lane) => lane !== right);
    const left = others.find((lane) => lane.log.name === wanted.left)
      || others.find((lane) => lane.log.name === "eagle3") || others[others.length - 1] || null;
    return [left, right].filter(Boolean);
  }

  const happened = (lane) => lane.log.cycles.slice(0, LaneLog.count(lane.log.cycles, lane.n));

  /** The cycle that the reader picked in a lane, by itself or by one of its tokens; or null. */
  function picked(lane, selection) {
    let wanted = selection.pins[lane.log.name];
    if (wanted === undefined && selection.lane === lane.log.name && selection.token !== null) {
      const token = lane.log.tokens[selection.token];
      if (token && token.at < lane.n && token.cycle !== null) wanted = token.cycle;
    }
    const cycle = wanted === undefined ? null : lane.log.cycleNumbered(wanted);
    return cycle && cycle.at < lane.n ? cycle : null;
  }

  const latest = (lane) => happened(lane).pop() || null;

  /** The cycle that drafts or commits the output's token number `place`, or null: not yet. */
  function cycleAt(lane, place) {
    const cycles = happened(lane);
    let found = null;
    for (const cycle of cycles) {
      if (cycle.firstToken > place) break;
      found = cycle;
    }
    if (!found) return null;
    // A cycle that has not committed yet may reach one token further than its tree.
    const reach = found.committedAt === Infinity ? found.height + 1 : found.numTokens;
    return place < found.firstToken + reach ? found : null;
  }

  /** The first place where two lanes committed different tokens; Infinity if there is none yet. */
  function divergence(a, b) {
    const count = Math.min(a.numbers.tokens, b.numbers.tokens);
    for (let i = 0; i < count; i += 1) {
      if (a.log.tokens[i].id !== b.log.tokens[i].id) return i;
    }
    return Infinity;
  }

  /** The place that lines the lanes up: where the picked cycle begins, else where the lane that
   *  is behind drafts now. */
  function sharedPlace(lanes, selection) {
    const lead = lanes.find((lane) => lane.log.name === selection.lane && picked(lane, selection));
    if (lead) return picked(lead, selection).firstToken;
    const starts = lanes.map(latest).map((cycle) => (cycle ? cycle.firstToken : 0));
    return starts.length ? Math.min(...starts) : 0;
  }

  /** @param lanes of a frame that have cycles  @param comparison {left, right, by}
   *  @returns {columns: [{lane, cycle, pinned, here}], place, parted}; `here` is the node that
   *  stands just before the shared place, `parted` where the texts differ before it, or null */
  function align(lanes, comparison, selection) {
    const shown = chooseLanes(lanes, comparison);
    const byPlace = comparison.by === "place" && shown.length === 2;
    const place = byPlace ? sharedPlace(shown, selection) : null;
    const columns = shown.map((lane) => {
      const pin = picked(lane, selection);
      if (!byPlace) return { lane, cycle: pin || latest(lane), pinned: Boolean(pin), here: null };
      const cycle = cycleAt(lane, place);
      const verified = cycle && cycle.verifiedAt < lane.n;
      const here = cycle && (verified || cycle.firstToken === place) ? Confu.cycleFacts.nodeBefore(cycle, place) : null;
      return { lane, cycle, pinned: Boolean(pin), here };
    });
    const parted = byPlace ? divergence(shown[0], shown[1]) : Infinity;
    return { columns, place, parted: parted < (place || 0) ? parted : null };
  }

  Confu.align = align;
  Confu.pickedCycle = (lane, selection) => picked(lane, selection) || latest(lane);
})((window.Confu = window.Confu || {}));
