// The transport bar: play, pause, step, slow motion, the scrubber with its ticks, and following
// a live race. It changes the playback and nothing else; it never speaks to a server.
(function (Confu) {
  "use strict";
  const { el, setText, ms } = Confu;
  const SPEEDS = [0.05, 0.1, 0.25, 0.5, 1, 2, 4];
  const ICONS = {
    start: "M5 5h2v14H5zM19 5v14L8 12z",
    back_cycle: "M12 5v14L3 12zM21 5v14l-9-7z",
    back: "M16 5v14L6 12z",
    play: "M7 4l13 8-13 8z",
    pause: "M6 5h4v14H6zM14 5h4v14h-4z",
    forward: "M8 5l10 7-10 7z",
    forward_cycle: "M3 5l9 7-9 7zM12 5l9 7-9 7z",
    end: "M5 5l11 7-11 7zM17 5h2v14h-2z",
  };

  function icon(name) {
    return Confu.svg("svg", { viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": "true" }, [
      Confu.svg("path", { d: ICONS[name], fill: "currentColor" }),
    ]);
  }

  class TransportView {
    constructor(context) {
      this.context = context;
      this.ticksKey = "";
      const { words } = context;
      this.playIcon = "";
      this.play = this.button("play", "play");
      this.clock = el("span", { class: "cf-clock" });
      this.range = el("input", { type: "range", class: "cf-range", min: 0, max: 1, step: "any", value: 0, "aria-label": words.say("transport.scrub") });
      this.range.addEventListener("input", () => context.act("scrub", Number(this.range.value)));
      this.ticks = el("canvas", { class: "cf-ticks", "aria-hidden": "true", title: words.say("transport.ticks") });
      this.speed = el("select", { class: "cf-speed", "aria-label": words.say("transport.speed"), on: { change: () => context.act("speed", Number(this.speed.value)) } },
        SPEEDS.map((value) => el("option", { value, text: `${value}×` })));
      this.modes = ["time", "event"].map((mode) =>
        el("button", { type: "button", text: words.say(`transport.mode.${mode}`), title: words.say(`transport.mode.${mode}.why`), "data-mode": mode, on: { click: () => context.act("mode", mode) } }));
      this.follow = el("button", { type: "button", class: "cf-follow", text: words.say("transport.follow"), on: { click: () => context.act("follow") } });
      this.node = el("div", { class: "cf-transport", role: "toolbar", "aria-label": words.say("transport.title") }, [
        el("div", { class: "cf-buttons" }, [
          this.button("start", "start"), this.button("back_cycle", "back_cycle"), this.button("back", "back"), this.play,
          this.button("forward", "forward"), this.button("forward_cycle", "forward_cycle"), this.button("end", "end"),
        ]),
        el("div", { class: "cf-scrub" }, [this.ticks, this.range]),
        this.clock,
        this.speed,
        el("div", { class: "cf-tabs cf-modes", role: "group", "aria-label": words.say("transport.mode") }, this.modes),
        this.follow,
        el("span", { class: "cf-keys", text: words.say("transport.keys") }),
      ]);
    }

    button(name, action) {
      const label = this.context.words.say(`transport.${name}`);
      return el("button", { type: "button", class: `cf-button cf-button-${name}`, "aria-label": label, title: label, on: { click: () => this.context.act(action) } }, [icon(name)]);
    }

    draw(frame) {
      this.node.hidden = !frame.lanes.length;
      const { playback, timeline } = frame;
      const { words } = this.context;
      const running = playback.playing || playback.follow;
      const wanted = running ? "pause" : "play";
      if (wanted !== this.playIcon) {
        this.playIcon = wanted;
        this.play.replaceChildren(icon(wanted));
        const label = words.say(`transport.${wanted}`);
        this.play.setAttribute("aria-label", label);
        this.play.title = label;
      }
      const byEvent = playback.mode === "event";
      const max = byEvent ? timeline.entries.length : timeline.end;
      this.range.max = String(max || 1);
      this.range.value = String(byEvent ? playback.position : playback.t);
      this.range.setAttribute("aria-valuetext", ms(playback.t));
      setText(this.clock, words.say("transport.clock", { t: ms(playback.t), end: ms(timeline.end), event: playback.position, events: timeline.entries.length }));
      this.speed.value = String(playback.speed);
      for (const button of this.modes) button.setAttribute("aria-pressed", String(button.dataset.mode === playback.mode));
      this.follow.hidden = timeline.complete;
      this.follow.setAttribute("aria-pressed", String(playback.follow));
      this.drawTicks(frame, byEvent, max);
    }

    /** One tick per rejection of the selected lane, and a taller one per escalation. */
    drawTicks(frame, byEvent, max) {
      const lane = frame.selected;
      const marks = lane ? lane.log.marks : [];
      if (frame.layout !== this.layout) this.width = this.ticks.clientWidth;
      this.layout = frame.layout;
      const { width } = this;
      const key = [lane ? lane.log.name : "", marks.length, byEvent, max, width, Confu.theme.version, frame.race].join();
      if (key === this.ticksKey || !width) return;
      this.ticksKey = key;
      const ratio = window.devicePixelRatio || 1;
      const height = this.ticks.clientHeight;
      this.ticks.width = Math.round(width * ratio);
      this.ticks.height = Math.round(height * ratio);
      const pen = this.ticks.getContext("2d");
      pen.scale(ratio, ratio);
      const inset = 7; // half a thumb: the range's own travel
      for (const mark of marks) {
        const share = (byEvent ? frame.timeline.placeOf(lane.log, mark.at) : mark.t) / (max || 1);
        const x = inset + share * (width - 2 * inset);
        const escalated = mark.kind === "escalated";
        pen.fillStyle = Confu.theme.color(escalated ? "--cf-recovered" : "--cf-rejected");
        pen.fillRect(x - 0.75, escalated ? 0 : height * 0.45, 1.5, escalated ? height : height * 0.55);
      }
    }
  }

  Confu.TransportView = TransportView;
  Confu.SPEEDS = SPEEDS;
})((window.Confu = window.Confu || {}));
