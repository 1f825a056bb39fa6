// The viewer: builds its panels, owns the race, the playhead and the selection, and draws.
// Hosts use ConfuViewer.mount(element, options) -> viewer with load, push, setLanguage, destroy.
(function (Confu) {
  "use strict";
  const { el, Timeline, Cursor, Playback, NOTHING } = Confu;

  /** The panels of every page, in their order. What stands above and below is on all of them. */
  const PAGES = {
    race: [Confu.RaceView, Confu.OutputsView, Confu.InspectorView],
    tokens: [Confu.TokensView, Confu.ExpertsView],
    steps: [Confu.StepsView, Confu.InspectorView],
  };
  const ABOVE = [Confu.HeadingView];
  const BELOW = [Confu.ProvenanceView, Confu.TransportView];
  const SLOW_PANELS_MS = 120; // nobody can read a new tree more often than that
  let races = 0;

  class Viewer {
    /** @param options {words: dictionary, lang, tab?: a page's name, fetchMissing?(run, from)} */
    constructor(element, options) {
      this.root = element;
      this.root.classList.add("confu-viewer");
      this.words = new Confu.Words(options.words, options.lang);
      this.tab = options.tab || "race";
      this.comparison = { left: null, right: null, by: "moment", turn: "auto" };
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
        moveCycle: (lane, delta) => this.moveCycle(lane, delta), race: () => this.race,
        compare: (changes) => this.compare(changes), openTab: (name) => this.openTab(name),
      };
      const make = (panels) => panels.map((Panel) => new Panel(context));
      const nodes = (views) => views.map((view) => view.node);
      const [above, below] = [make(ABOVE), make(BELOW)];
      this.views = [...above, ...below];
      this.pages = Object.fromEntries(Object.entries(PAGES).map(([name, panels]) => [name, make(panels)]));
      const pages = Object.fromEntries(Object.entries(this.pages).map(([name, views]) => [name, nodes(views)]));
      this.tabs = new Confu.Tabs(context, pages, (name) => this.openTab(name));
      this.announcer = el("p", { class: "cf-sr", role: "status" });
      this.root.setAttribute("lang", this.words.lang);
      this.root.replaceChildren(...nodes(above), this.tabs.node, ...this.tabs.pages, ...nodes(below), this.announcer);
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
      const { lane, pins } = this.selection;
      this.selection = { lane, ...NOTHING, ...(what.clear ? {} : { ...what, pins: this.pinsAfter(what, lane, pins) }) };
      this.refresh();
    }

    /** The pinned cycles after a selection: a cycle is held until another one of its lane is
     *  picked; lined up by place there is only one, which the other lane follows. */
    pinsAfter(what, lane, pins) {
      const name = what.lane || lane;
      if (typeof what.cycle === "number") return { ...(this.comparison.by === "place" ? {} : pins), [name]: what.cycle };
      if (what.expert) return pins;
      if (typeof what.token !== "number" || this.comparison.by === "place") return {};
      return Object.fromEntries(Object.entries(pins).filter(([other]) => other !== name));
    }

    /** Which two lanes stand side by side, how they are lined up, and which way trees grow. */
    compare(changes) {
      this.comparison = { ...this.comparison, ...changes };
      const { lane, pins } = this.selection;
      if (changes.by === "place") this.selection = { ...this.selection, pins: lane in pins ? { [lane]: pins[lane] } : {} };
      this.refresh();
    }

    openTab(name) {
      this.tab = name;
      this.refresh();
    }

    /** Pins the next or previous cycle of a lane. */
    moveCycle(name, delta) {
      const column = Confu.makeFrame(this).columns.find(({ lane }) => lane.log.name === name);
      if (!column) return;
      const { lane } = column;
      const count = Confu.LaneLog.count(lane.log.cycles, lane.n);
      if (!count) return;
      const here = column.cycle ? lane.log.cycles.indexOf(column.cycle) : count;
      const place = Math.max(0, Math.min(count - 1, here + delta));
      this.playback.pause();
      this.select({ lane: name, cycle: lane.log.cycles[place].cycle });
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
        next_cycle: () => this.moveCycle(this.selection.lane, 1),
        previous_cycle: () => this.moveCycle(this.selection.lane, -1),
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

    /** The panels of the shown page; while playing, the costly ones only a few times a second. */
    draw() {
      this.cursor.moveTo(this.playback.position);
      const frame = Confu.makeFrame(this);
      const moving = this.playback.playing || this.playback.follow;
      const now = performance.now();
      const all = !moving || now - this.drawnSlowly >= SLOW_PANELS_MS;
      if (all) this.drawnSlowly = now;
      const page = this.tabs.draw(frame, this.tab);
      const turned = page !== this.page; // a page that was hidden had no sizes
      this.page = frame.page = page;
      if (turned) frame.layout = this.layout += 1;
      for (const view of [...this.views, ...this.pages[page]]) if (all || turned || !view.costly) view.draw(frame);
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
