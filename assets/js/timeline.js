// All lanes' events in the order of the common clock. Every lane's own clock starts at zero and
// runs only while that lane computes, so lanes merge by t_ms. While a race is live, only times
// up to the horizon are settled: no lane can still add an event before it.
(function (Confu) {
  "use strict";

  class Timeline {
    constructor(laneNames) {
      this.logs = laneNames.map((name, order) => new Confu.LaneLog(name, order));
      this.entries = []; // {t, order, index}
      this.complete = false;
      this.longest = 0; // tokens of the longest lane so far
    }

    log(name) {
      return this.logs.find((log) => log.name === name) || null;
    }

    /** Adds one event; lanes are appended to `logs` when they are new. */
    push(name, event) {
      let log = this.log(name);
      if (!log) {
        log = new Confu.LaneLog(name, this.logs.length);
        this.logs.push(log);
      }
      const entry = { t: event.t_ms, order: log.order, index: log.events.length };
      log.push(event);
      this.longest = Math.max(this.longest, log.tokens.length);
      let place = this.entries.length;
      while (place > 0 && after(this.entries[place - 1], entry)) place -= 1;
      this.entries.splice(place, 0, entry);
    }

    /** The time up to which nothing can change any more. */
    get horizon() {
      if (this.complete) return this.end;
      let horizon = this.end;
      for (const log of this.logs) if (!log.finish) horizon = Math.min(horizon, log.lastTime);
      return horizon;
    }

    /** How many entries are settled: a running lane's next event can only come after them. */
    get settled() {
      if (this.complete) return this.entries.length;
      let first = null;
      for (const log of this.logs) {
        if (log.finish) continue;
        const next = { t: log.lastTime, order: log.order, index: log.events.length };
        if (first === null || after(first, next)) first = next;
      }
      if (first === null) return this.entries.length;
      let count = this.countUntil(first.t);
      while (count > 0 && after(this.entries[count - 1], first)) count -= 1;
      return count;
    }

    get end() {
      return this.entries.length ? this.entries[this.entries.length - 1].t : 0;
    }

    /** The position just after one event of a lane. */
    placeOf(log, index) {
      const sought = { t: log.events[index].t_ms, order: log.order, index };
      let place = this.countUntil(sought.t);
      while (place > 0 && after(this.entries[place - 1], sought)) place -= 1;
      return place;
    }

    /** How many entries happen at or before a time. */
    countUntil(t) {
      let low = 0;
      let high = this.entries.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.entries[middle].t <= t) low = middle + 1;
        else high = middle;
      }
      return low;
    }
  }

  /** Whether entry a comes after entry b: by time, then by lane, then as the lane made them. */
  function after(a, b) {
    if (a.t !== b.t) return a.t > b.t;
    if (a.order !== b.order) return a.order > b.order;
    return a.index > b.index;
  }

  /** How many events of each lane lie before a position; moves by differences. */
  class Cursor {
    constructor(timeline) {
      this.timeline = timeline;
      this.position = 0;
      this.counts = [];
    }

    moveTo(position) {
      const entries = this.timeline.entries;
      while (this.position < position) {
        const order = entries[this.position].order;
        this.counts[order] = (this.counts[order] || 0) + 1;
        this.position += 1;
      }
      while (this.position > position) {
        this.position -= 1;
        this.counts[entries[this.position].order] -= 1;
      }
    }

    count(order) {
      return this.counts[order] || 0;
    }
  }

  Confu.Timeline = Timeline;
  Confu.Cursor = Cursor;
})((window.Confu = window.Confu || {}));
