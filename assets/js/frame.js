// Everything that the panels draw, for one moment: a pure function of the timeline, the place of
// the playhead and the selection.
(function (Confu) {
  "use strict";
  const { numbers } = Confu;

  /** `pins`: the cycle that the reader holds in a lane, by the lane's name. */
  const NOTHING = { cycle: null, node: null, token: null, step: null, expert: null, pins: {} };

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

  /** The lane whose contemplation is shown, with its cycle. */
  function thinkerOf(lanes, columns, selection) {
    const thinks = (lane) => lane.log.cycles.some((cycle) => cycle.proposed.contemplation);
    const column = columns.find(({ lane }) => thinks(lane));
    if (column) return column;
    const lane = lanes.find(thinks);
    return lane ? { lane, cycle: Confu.pickedCycle(lane, selection) } : null;
  }

  /** The lanes with reasoning steps, and the one whose steps are shown: the selected one, else
   *  ConfSpec's. */
  function stepLanesOf(lanes, selected) {
    const stepLanes = lanes.filter((lane) => lane.log.attempts.length);
    const stepLane = stepLanes.find((lane) => lane === selected) || stepLanes.find((lane) => lane.log.name === "confspec") || stepLanes[0] || null;
    return { stepLanes, stepLane };
  }

  /** @param race {id, title, expected, source, created}  of the viewer */
  function makeFrame(viewer) {
    const { timeline, playback, cursor, selection, race } = viewer;
    const lanes = timeline.logs.map((log) => makeLane(log, cursor.count(log.order), playback.t));
    const baseline = lanes.find((lane) => lane.log.name === "autoregressive") || null;
    for (const lane of lanes) compare(lane, baseline, race);
    const selected = lanes.find((lane) => lane.log.name === selection.lane) || null;
    const treeLanes = lanes.filter((lane) => lane.log.cycles.length);
    const { columns, place, parted } = Confu.align(treeLanes, viewer.comparison, selection);
    return {
      race: race.id, layout: viewer.layout, t: playback.t, lanes, selected, selection, playback, timeline,
      longest: timeline.longest, treeLanes,
      columns, place, parted, turn: viewer.comparison.turn,
      thinker: thinkerOf(lanes, columns, selection),
      ...stepLanesOf(lanes, selected),
    };
  }

  Confu.makeFrame = makeFrame;
  Confu.NOTHING = NOTHING;
})((window.Confu = window.Confu || {}));
