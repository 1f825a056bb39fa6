// Did what f foresaw come true? The definitions are those of confu_demo/foresight_metrics.py.
(function (Confu) {
  "use strict";
  const NEAR = 16; // tokens in which a foreseen token may come true; our choice
  const SHIFTS = [0.25, 0.5, 0.75]; // how far away, in shares of a run, "another place" is

  /** How many tokens after the cycle's first one a foreseen token came, or null. */
  function distance(token, lane, cycle) {
    const end = Math.min(cycle.firstToken + NEAR, lane.numbers.tokens);
    for (let i = cycle.firstToken; i < end; i += 1) {
      if (lane.log.tokens[i].id === token.token_id) return i - cycle.firstToken;
    }
    return null;
  }

  /** Whether the tokens in which a cycle's foreseen ones may come true are all known. */
  function isOver(lane, cycle) {
    return lane.numbers.tokens - cycle.firstToken >= NEAR || Boolean(lane.numbers.finish);
  }

  /** Over the cycles that are over: how often the likeliest foreseen token came true, and how
   *  often it would have at other places of the same text. {cycles, hits, chance} */
  function tally(lane) {
    const counted = [];
    for (const cycle of lane.log.cycles) {
      if (cycle.at >= lane.n || !isOver(lane, cycle)) break;
      const thought = cycle.proposed.contemplation;
      if (thought && thought.foreseen.length) counted.push(cycle);
    }
    let hits = 0;
    let tried = 0;
    let lucky = 0;
    counted.forEach((cycle, i) => {
      const best = cycle.proposed.contemplation.foreseen[0];
      if (distance(best, lane, cycle) !== null) hits += 1;
      for (const shift of SHIFTS) {
        const other = counted[(i + Math.floor(shift * counted.length)) % counted.length];
        if (Math.abs(other.firstToken - cycle.firstToken) < NEAR) continue;
        tried += 1;
        if (distance(best, lane, other) !== null) lucky += 1;
      }
    });
    return { cycles: counted.length, hits, chance: tried ? lucky / tried : NaN };
  }

  Confu.foresight = { NEAR, distance, isOver, tally };
})((window.Confu = window.Confu || {}));
