// The pages of the viewer: Race, Tokens, Steps. A page is there when the race has something for
// it; all pages share one clock, one selection and the transport bar.
(function (Confu) {
  "use strict";
  const { el } = Confu;
  const DRAFTING = ["prompt_lookup", "eagle3", "confu"];

  /** Which pages have content; a lane's name tells it before its first event does. */
  const HAS_CONTENT = {
    race: () => true,
    tokens: (frame) => frame.lanes.some(({ log }) => log.cycles.length || DRAFTING.includes(log.name)),
    steps: (frame) => frame.lanes.some(({ log }) => log.attempts.length || log.name.startsWith("confspec")),
  };

  class Tabs {
    /** @param pages {name: [element, ...]}  @param choose called with a page's name */
    constructor(context, pages, choose) {
      const { words } = context;
      this.names = Object.keys(pages);
      this.choose = choose;
      this.buttons = this.names.map((name) =>
        el("button", {
          type: "button", role: "tab", id: `cf-tab-${name}`, "aria-controls": `cf-page-${name}`, class: "cf-tab",
          "data-tab": name, text: words.say(`tab.${name}`), title: words.say(`tab.${name}.what`),
          on: { click: () => choose(name), keydown: (event) => this.press(event, name) },
        })
      );
      this.node = el("div", { class: "cf-tab-list", role: "tablist", "aria-label": words.say("tab.title") }, this.buttons);
      this.pages = this.names.map((name) =>
        el("div", { class: `cf-page cf-page-${name}`, role: "tabpanel", id: `cf-page-${name}`, "aria-labelledby": `cf-tab-${name}` }, pages[name])
      );
    }

    /** Arrow keys move between the tabs, and only there. */
    press(event, name) {
      const open = this.names.filter((other) => !this.button(other).hidden);
      const place = open.indexOf(name);
      const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: open.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      const wanted = open[(next + open.length) % open.length];
      this.choose(wanted);
      this.button(wanted).focus();
    }

    button(name) {
      return this.buttons[this.names.indexOf(name)];
    }

    /** @returns the page that is shown: the wanted one, or the first if it has no content */
    draw(frame, wanted) {
      const open = this.names.filter((name) => HAS_CONTENT[name](frame));
      const shown = open.includes(wanted) ? wanted : open[0];
      const key = `${open.join()}/${shown}`;
      if (key === this.key) return shown;
      this.key = key;
      this.node.hidden = open.length < 2;
      this.names.forEach((name, i) => {
        this.buttons[i].hidden = !open.includes(name);
        this.buttons[i].setAttribute("aria-selected", String(name === shown));
        this.buttons[i].setAttribute("tabindex", name === shown ? "0" : "-1");
        this.pages[i].hidden = name !== shown;
      });
      return shown;
    }
  }

  Confu.Tabs = Tabs;
})((window.Confu = window.Confu || {}));
