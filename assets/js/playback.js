// Where the reader is in a race. `advance` is a pure function of the milliseconds it is given
// (the viewer's animation frame calls it), so playing is as deterministic as stepping.
(function (Confu) {
  "use strict";
  const EVENTS_PER_SECOND = 8; // at speed 1, in the mode "one event at a time"; our choice

  class Playback {
    constructor(timeline) {
      this.timeline = timeline;
      this.position = 0; // entries of the timeline that have happened
      this.t = 0; // the common clock, ms
      this.playing = false;
      this.follow = false;
      this.speed = 0.25;
      this.mode = "time"; // or "event"
      this.owed = 0; // fractions of an event, in event mode
    }

    get limit() {
      return this.timeline.settled;
    }

    get atEnd() {
      return this.timeline.complete && this.position >= this.timeline.entries.length;
    }

    /** True while playing has caught up with an engine that is still running. */
    get waiting() {
      return !this.timeline.complete && this.position >= this.limit;
    }

    advance(elapsed) {
      if (this.follow) this.goTo(this.limit);
      else if (this.playing && this.mode === "event") this.advanceByEvents(elapsed);
      else if (this.playing) this.seek(this.t + elapsed * this.speed);
      if (this.atEnd) {
        this.playing = false;
        this.follow = false;
      }
    }

    advanceByEvents(elapsed) {
      this.owed += (elapsed / 1000) * this.speed * EVENTS_PER_SECOND;
      const whole = Math.floor(this.owed);
      this.owed -= whole;
      if (whole) this.goTo(this.position + whole);
    }

    /** Moves the clock; while live it stops at the horizon. */
    seek(t) {
      this.t = Math.max(0, Math.min(t, this.timeline.horizon));
      this.position = Math.min(this.timeline.countUntil(this.t), this.limit);
    }

    goTo(position) {
      this.position = Math.max(0, Math.min(position, this.limit));
      this.t = this.position ? this.timeline.entries[this.position - 1].t : 0;
    }

    step(delta) {
      this.pause();
      this.goTo(this.position + delta);
    }

    /** To the next or previous cycle or reasoning step of one lane. */
    stepCycle(log, direction) {
      this.pause();
      const entries = this.timeline.entries;
      let place = direction > 0 ? this.position : this.position - 2;
      for (; place >= 0 && place < this.limit; place += direction) {
        const entry = entries[place];
        if (entry.order !== log.order) continue;
        const event = log.events[entry.index];
        if (LANDMARKS.has(event.event)) return this.goTo(place + 1);
      }
      return this.goTo(direction > 0 ? this.limit : 0);
    }

    play() {
      if (this.atEnd) this.goTo(0);
      this.playing = true;
      this.owed = 0;
    }

    pause() {
      this.playing = false;
      this.follow = false;
    }
  }

  const LANDMARKS = new Set(["TokensCommitted", "RunFinished"]);
  Confu.Playback = Playback;
})((window.Confu = window.Confu || {}));
