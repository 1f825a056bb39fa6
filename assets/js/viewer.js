// The viewer: builds its panels, owns the race, the playhead and the selection, and draws.
// Hosts use ConfuViewer.mount(element, options) -> viewer with load, push, setLanguage, destroy.
(function (Confu) {
  "use strict";
  const { el, Timeline, Cursor, Playback, NOTHING } = Confu;

  /** Panels by name, in the order of the page. Another tab is another list of names. */
  const PANELS = {
    heading: Confu.HeadingView,
    race: Confu.RaceView,
    outputs: Confu.OutputsView,
    tree: Confu.TreeView,
    inspector: Confu.InspectorView,
    experts: Confu.ExpertsView,
    steps: Confu.StepsView,
    provenance: Confu.ProvenanceView,
    transport: Confu.TransportView,
  };
  const SLOW_PANELS_MS = 120; // nobody can read a new tree more often than that
  let races = 0;

  class Viewer {
    /** @param options {words: dictionary, lang, panels?: names, fetchMissing?(run, from)} */
    constructor(element, options) {
      this.root = element;
      this.root.classList.add("confu-viewer");
      this.words = new Confu.Words(options.words, options.lang);
      this.panels = options.panels || Object.keys(PANELS);
      this.inbox = new Confu.Inbox((batch) => this.deliver(batch), options.fetchMissing || null);
      this.selection = { lane: null, ...NOTHING };
      this.playback = null;
      this.announced = "";
      this.layout = 0; // grows whenever sizes may have changed
      this.drawnSlowly = 0; // when the costly panels were drawn last
      this.lastFrame = 0;
      this.reset({ source: "none", lanes: [] });
      this.build();
      this.undo = [
        Confu.listenToKeys(this),
        Confu.theme.watch(this.root, () => this.refresh()),
      ];
      this.resizer = new ResizeObserver(() => {
        this.layout += 1;
        this.refresh();
      });
      this.resizer.observe(this.root);
    }

    reset(race) {
      const kept = this.playback;
      races += 1;
      this.race = { id: races, title: "", expected: null, created: "", message: "", ...race };
      this.timeline = new Timeline(race.lanes || []);
      this.cursor = new Cursor(this.timeline);
      this.playback = new Playback(this.timeline);
      if (kept) {
        this.playback.speed = kept.speed;
        this.playback.mode = kept.mode;
      }
      this.selection = { lane: this.selection.lane, ...NOTHING };
      if (this.views) this.build();
    }

    build() {
      const context = {
        words: this.words, select: (what) => this.select(what), act: (...args) => this.act(...args),
        moveCycle: (delta) => this.moveCycle(delta), race: () => this.race,
      };
      this.views = this.panels.map((name) => new PANELS[name](context));
      this.announcer = el("p", { class: "cf-sr", role: "status" });
      this.root.setAttribute("lang", this.words.lang);
      this.root.replaceChildren(...this.views.map((view) => view.node), this.announcer);
      this.layout += 1;
      this.refresh();
    }

    /** A whole race: {title, created, source, expected, lanes: {name: [event, ...]}}. */
    load(recording, options) {
      this.inbox.leave();
      this.reset({ ...recording, source: recording.source || "recording", lanes: Object.keys(recording.lanes) });
      const all = Object.entries(recording.lanes).flatMap(([name, events]) => events.map((event) => [name, event]));
      all.sort((a, b) => a[1].t_ms - b[1].t_ms); // stable: a lane's own order stays
      for (const [name, event] of all) this.timeline.push(name, event);
      this.timeline.complete = true;
      this.chooseLane();
      const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (still) this.playback.goTo(this.timeline.entries.length);
      else if (!options || options.autoplay !== false) this.playback.play();
      this.refresh();
    }

    /** A batch of a live race, in whatever order and however often it comes. */
    push(batch) {
      this.inbox.accept(batch);
    }

    deliver(batch) {
      if (batch.meta) {
        this.reset({ ...batch.meta, source: "live" });
        this.playback.play();
      }
      for (const [name, event] of batch.events || []) this.timeline.push(name, event);
      if (batch.done) this.timeline.complete = true;
      this.chooseLane();
      this.refresh();
    }

    /** Shows one sentence above the race and leaves everything else as it is. */
    complain(sentence) {
      this.race.message = sentence;
      this.refresh();
    }

    chooseLane() {
      if (this.timeline.log(this.selection.lane)) return;
      const names = this.timeline.logs.map((log) => log.name);
      this.selection.lane = ["confu", "eagle3", "confspec"].find((name) => names.includes(name)) || names[0] || null;
    }

    setLanguage(lang) {
      this.words.set(lang);
      this.build();
    }

    select(what) {
      if (what.clear) this.selection = { lane: this.selection.lane, ...NOTHING };
      else this.selection = { ...this.selection, ...NOTHING, ...what };
      this.refresh();
    }

    /** Pins the next or previous cycle of the tree's lane. */
    moveCycle(delta) {
      const frame = Confu.makeFrame(this);
      if (!frame.tree || !frame.tree.cycle) return;
      const { lane, cycle } = frame.tree;
      const count = Confu.LaneLog.count(lane.log.cycles, lane.n);
      const place = Math.max(0, Math.min(count - 1, lane.log.cycles.indexOf(cycle) + delta));
      this.playback.pause();
      this.select({ lane: lane.log.name, cycle: lane.log.cycles[place].cycle });
    }

    act(action, value) {
      const { playback } = this;
      const log = this.timeline.log(this.selection.lane);
      const actions = {
        play: () => (playback.playing || playback.follow ? playback.pause() : this.unpin().play()),
        forward: () => this.unpin().step(1),
        back: () => this.unpin().step(-1),
        forward_cycle: () => log && this.unpin().stepCycle(log, 1),
        back_cycle: () => log && this.unpin().stepCycle(log, -1),
        start: () => this.unpin().step(-Infinity),
        end: () => this.unpin().step(Infinity),
        scrub: () => {
          playback.pause();
          if (playback.mode === "event") playback.goTo(Math.round(value));
          else playback.seek(value);
        },
        speed: () => (playback.speed = value),
        faster: () => (playback.speed = nextSpeed(playback.speed, 1)),
        slower: () => (playback.speed = nextSpeed(playback.speed, -1)),
        mode: () => (playback.mode = value),
        toggle_mode: () => (playback.mode = playback.mode === "time" ? "event" : "time"),
        follow: () => {
          if (!this.timeline.complete) playback.follow = !playback.follow;
        },
        lane: () => this.select({ lane: value }),
      };
      actions[action]();
      this.refresh();
    }

    /** Moving the playhead lets go of a pinned cycle, token or step; a lit expert stays. */
    unpin() {
      this.selection = { lane: this.selection.lane, ...NOTHING, expert: this.selection.expert };
      return this.playback;
    }

    /** Draws in the next animation frame, and goes on while anything moves. */
    refresh() {
      if (this.scheduled) return;
      this.scheduled = requestAnimationFrame((now) => {
        this.scheduled = null;
        const { playback } = this;
        const moving = playback.playing || playback.follow;
        if (moving && this.lastFrame) playback.advance(Math.min(now - this.lastFrame, 100));
        this.lastFrame = moving ? now : 0;
        this.draw();
        if (playback.playing || playback.follow) this.refresh();
      });
    }

    /** All panels; while playing, the costly ones only a few times a second. */
    draw() {
      this.cursor.moveTo(this.playback.position);
      const frame = Confu.makeFrame(this);
      const moving = this.playback.playing || this.playback.follow;
      const now = performance.now();
      const all = !moving || now - this.drawnSlowly >= SLOW_PANELS_MS;
      if (all) this.drawnSlowly = now;
      for (const view of this.views) if (all || !view.costly) view.draw(frame);
      if (!moving) this.announce(frame);
    }

    /** The screen reader's summary: only when nothing moves. */
    announce(frame) {
      const text = Confu.summary.sentence(frame, this.words);
      if (text !== this.announced || this.announcer.textContent === "") this.announcer.textContent = text;
      this.announced = text;
    }

    destroy() {
      for (const undo of this.undo) undo();
      this.resizer.disconnect();
      this.inbox.leave();
      if (this.scheduled) cancelAnimationFrame(this.scheduled);
      this.root.replaceChildren();
    }
  }

  function nextSpeed(speed, direction) {
    const place = Confu.SPEEDS.indexOf(speed);
    return Confu.SPEEDS[Math.max(0, Math.min(Confu.SPEEDS.length - 1, place + direction))];
  }

  window.ConfuViewer = { mount: (element, options) => new Viewer(element, options) };
})((window.Confu = window.Confu || {}));
