// Colours for canvas drawing, read from the style sheet's custom properties and read again when
// the page turns dark or light. Elements need none of this: they use the properties directly.
(function (Confu) {
  "use strict";

  const theme = {
    version: 0,
    values: new Map(),
    element: document.documentElement,

    color(name) {
      let value = this.values.get(name);
      if (value === undefined) {
        value = getComputedStyle(this.element).getPropertyValue(name).trim() || "#888";
        this.values.set(name, value);
      }
      return value;
    },

    watch(element, changed) {
      this.element = element;
      const renew = () => {
        this.values.clear();
        this.version += 1;
        changed();
      };
      const observer = new MutationObserver(renew);
      for (const node of [document.documentElement, document.body]) {
        observer.observe(node, { attributes: true, attributeFilter: ["class"] });
      }
      renew();
      return () => observer.disconnect();
    },
  };

  Confu.theme = theme;
})((window.Confu = window.Confu || {}));
