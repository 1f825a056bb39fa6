// The words of the page. One dictionary (confu_demo/ui/wording.json) serves Python and this
// viewer; a phrase may hold {names} that are filled in from the arguments.
(function (Confu) {
  "use strict";
  const FALLBACK = "en";

  class Words {
    /** @param dictionary {key: {lang: phrase}}  @param lang one of its languages */
    constructor(dictionary, lang) {
      this.dictionary = dictionary;
      this.missing = new Set();
      this.set(lang);
    }

    set(lang) {
      const known = Object.values(this.dictionary)[0] || {};
      this.lang = known[lang] === undefined ? FALLBACK : lang;
    }

    /** The phrase for a key; an unknown key shows itself, so that it is seen and fixed. */
    say(key, args) {
      const entry = this.dictionary[key];
      if (!entry) {
        this.missing.add(key);
        return key;
      }
      const phrase = entry[this.lang];
      if (!args) return phrase;
      return phrase.replace(/\{(\w+)\}/g, (whole, name) =>
        args[name] === undefined ? whole : String(args[name])
      );
    }

    has(key) {
      return this.dictionary[key] !== undefined;
    }

    /** A method's name, or the lane's own name if it is not one of ours. */
    method(name) {
      return this.has(`method.${name}`) ? this.say(`method.${name}`) : name;
    }
  }

  Confu.Words = Words;
})((window.Confu = window.Confu || {}));
