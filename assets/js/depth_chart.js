// Acceptance by depth: of the cycles that accepted everything above a depth and had drafted
// something there, how many accepted a token there. A line marks the lane beside it.
(function (Confu) {
  "use strict";
  const { el, svg, percent } = Confu;
  const HEIGHT = 72; // of the bars, px
  const TOP = 14;
  const WIDEST = 44;

  class DepthChart {
    constructor(context) {
      this.words = context.words;
      this.key = "";
      this.box = el("div", { class: "cf-depths" });
    }

    /** @param depths as of Confu.cycleNumbers  @param other those of the other lane, or null
     *  @param otherName its name  @param room in px */
    draw(depths, other, otherName, room) {
      const key = JSON.stringify([depths, other, otherName, room]);
      if (key === this.key || !room) return;
      this.key = key;
      this.box.replaceChildren();
      const levels = Math.max(depths.length, other ? other.length : 0);
      if (levels) this.box.append(this.picture(depths, other, otherName, levels, room));
    }

    picture(depths, other, otherName, levels, room) {
      const step = Math.min(WIDEST, (room - 4) / levels);
      const width = step * levels + 4;
      const listed = depths.map((entry, i) => this.words.say("depths.entry", { depth: i + 1, rate: percent(entry.accepted / entry.reached), accepted: entry.accepted, reached: entry.reached }));
      const picture = svg("svg", { width, height: TOP + HEIGHT + 30, role: "img", "aria-label": listed.join("; ") });
      for (let i = 0; i < levels; i += 1) {
        const x = 2 + i * step;
        picture.append(svg("rect", { class: "cf-depth-back", x: x + 2, y: TOP, width: step - 4, height: HEIGHT, rx: 2 }));
        if (depths[i]) picture.append(this.bar(depths[i], listed[i], x, step));
        if (other && other[i]) picture.append(this.line(other[i], otherName, x, step));
        picture.append(svg("text", { class: "cf-depth-number", x: x + step / 2, y: TOP + HEIGHT + 13, "text-anchor": "middle", text: String(i + 1) }));
      }
      return picture;
    }

    bar({ accepted, reached }, words, x, step) {
      const rate = accepted / reached;
      const top = TOP + HEIGHT * (1 - rate);
      return svg("g", { class: "cf-depth" }, [
        svg("title", { text: words }),
        svg("rect", { x: x + 2, y: top, width: step - 4, height: Math.max(HEIGHT * rate, 1), rx: 2 }),
        svg("text", { class: "cf-depth-rate", x: x + step / 2, y: TOP - 3, "text-anchor": "middle", text: step < 28 ? Math.round(rate * 100) : percent(rate) }),
        step < 30 ? null : svg("text", { class: "cf-depth-count", x: x + step / 2, y: TOP + HEIGHT + 26, "text-anchor": "middle", text: `${accepted}/${reached}` }),
      ]);
    }

    line({ accepted, reached }, otherName, x, step) {
      const rate = accepted / reached;
      const y = TOP + HEIGHT * (1 - rate);
      return svg("g", { class: "cf-depth-other" }, [
        svg("title", { text: `${otherName}: ${percent(rate)} (${accepted}/${reached})` }),
        svg("line", { x1: x, x2: x + step, y1: y, y2: y }),
      ]);
    }
  }

  Confu.DepthChart = DepthChart;
})((window.Confu = window.Confu || {}));
