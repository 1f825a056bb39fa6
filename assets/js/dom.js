// Making elements. Data reaches the page only through textContent and attributes, never markup.
(function (Confu) {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, props, children) {
    for (const [name, value] of Object.entries(props || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "text") node.textContent = value;
      else if (name === "on") for (const [type, fn] of Object.entries(value)) node.addEventListener(type, fn);
      else if (name === "style") for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children || []) if (child) node.append(child);
    return node;
  }

  Confu.el = (tag, props, children) => fill(document.createElement(tag), props, children);
  Confu.svg = (tag, props, children) => fill(document.createElementNS(SVG, tag), props, children);

  /** Set text only when it changes, so that an idle frame touches nothing. */
  Confu.setText = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };

  Confu.setClass = (node, name, on) => {
    if (node.classList.contains(name) !== Boolean(on)) node.classList.toggle(name, Boolean(on));
  };

  Confu.percent = (p) => {
    const value = p * 100;
    if (value > 0 && value < 1) return "<1%";
    if (value > 99 && value < 100) return ">99%";
    return `${Math.round(value)}%`;
  };

  Confu.fixed = (value, digits) => (Number.isFinite(value) ? value.toFixed(digits) : "–");

  Confu.ms = (value) => {
    if (!Number.isFinite(value)) return "–";
    if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
    return `${value.toFixed(value < 100 ? 1 : 0)} ms`;
  };

  Confu.count = (value) => {
    if (value >= 1e9) return `${(value / 1e9).toFixed(1)} B`;
    if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
    return value >= 1e3 ? `${(value / 1e3).toFixed(0)} k` : String(value);
  };
})((window.Confu = window.Confu || {}));
