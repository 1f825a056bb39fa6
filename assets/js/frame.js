// Everything that the panels draw, for one moment: a pure function of the timeline, the place of
// the playhead and the selection.
(function (Confu) {
  "use strict";
  const { LaneLog, numbers } = Confu;

  const NOTHING = { cycle: null, node: null, token: null, step: null, expert: null };

  /** The lane that a panel shows: the selected one if it can, else the most telling one. */
  function pick(lanes, selected, preferred) {
    if (lanes.some((lane) => lane === selected)) return selected;
    for (const name of preferred) {
      const lane = lanes.find((candidate) => candidate.log.name === name);
      if (lane) return lane;
    }
    return lanes[0] || null;
  }

  /** The cycle that a panel shows: the pinned one, the selected token's, or the latest. */
  function cycleOf(lane, selection) {
    const mine = selection.lane === lane.log.name;
    let wanted = mine ? selection.cycle : null;
    if (mine && wanted === null && selection.token !== null) {
      const token = lane.log.tokens[selection.token];
      wanted = token && token.at < lane.n ? token.cycle : null;
    }
    if (wanted !== null) {
      const cycle = lane.log.cycleNumbered(wanted);
      if (cycle && cycle.at < lane.n) return cycle;
    }
    const count = LaneLog.count(lane.log.cycles, lane.n);
    return count ? lane.log.cycles[count - 1] : null;
  }

  function makeLane(log, n, t) {
    const pending = Confu.chips.pending(log, n);
    let pendingCount = 0;
    for (const item of pending) if (item.state === "pending") pendingCount += item.size || 1;
    return { log, n, numbers: numbers.laneNumbers(log, n, t), pending, pendingCount };
  }

  function compare(lane, baseline, race) {
    const { log, n } = lane;
    lane.speedup = baseline ? numbers.speedup(lane.numbers, baseline.numbers) : NaN;
    lane.identical = baseline ? numbers.identical(log, n, baseline.log, baseline.n) : null;
    lane.answer = numbers.answerVerdict(log, n, race.expected);
    lane.answerText = lane.numbers.finish ? numbers.answerOf(log.textAt(n)) : null;
  }

  /** @param race {id, title, expected, source, created}  of the viewer */
  function makeFrame(viewer) {
    const { timeline, playback, cursor, selection, race } = viewer;
    const lanes = timeline.logs.map((log) => makeLane(log, cursor.count(log.order), playback.t));
    const baseline = lanes.find((lane) => lane.log.name === "autoregressive") || null;
    for (const lane of lanes) compare(lane, baseline, race);
    const selected = lanes.find((lane) => lane.log.name === selection.lane) || null;
    const treeLanes = lanes.filter((lane) => lane.log.cycles.length);
    const treeLane = pick(treeLanes, selected, ["confu", "eagle3"]);
    const thinkers = lanes.filter((lane) => lane.log.cycles.some((cycle) => cycle.proposed.contemplation));
    const thinker = pick(thinkers, selected, ["confu"]);
    return {
      race: race.id, layout: viewer.layout, t: playback.t, lanes, selected, selection, playback, timeline,
      longest: timeline.longest, treeLanes,
      tree: treeLane ? { lane: treeLane, cycle: cycleOf(treeLane, selection) } : null,
      thinker: thinker ? { lane: thinker, cycle: cycleOf(thinker, selection) } : null,
      stepLane: lanes.find((lane) => lane.log.attempts.length) || null,
    };
  }

  Confu.makeFrame = makeFrame;
  Confu.NOTHING = NOTHING;
})((window.Confu = window.Confu || {}));
